"""Whatever is done to a model in any order, it is what it was taught; `make soak` takes many more steps."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kills are told by fork")
def test_a_model_keeps_its_promises_in_any_order_of_steps():
    import lifecycle

    taken = lifecycle.live(60, seed=0, each=10, exports=0.0)
    assert sum(taken.values()) >= 40
    assert len(taken) >= 7
