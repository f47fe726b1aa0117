"""The code of the README runs as it stands, for every model."""

import re
from pathlib import Path

import pytest

from totalcal import MODELS

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_blocks_of_the_readme_run_one_after_another() -> None:
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(block.replace("epochs=20", "epochs=2"), names)
    assert names["prediction"].probabilities.shape == (597, 10)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_model_trains_from_the_readme_s_loop(model: str) -> None:
    names: dict[str, object] = {}
    for block in (block for block in BLOCKS if "evaluate" not in block):
        training = block.split("\nprediction =")[0].replace("epochs=20", "epochs=1")
        exec(training.replace("totalcal.etp", f"totalcal.{model}"), names)
    assert names["loss"].item() > 0
