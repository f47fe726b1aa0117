"""Extreme numbers end in finite answers or clear errors, and leave every model as it was."""

import runpy
from pathlib import Path

import pytest


@pytest.mark.slow
def test_no_extreme_number_gives_a_wrong_answer_or_a_traceback():
    tried = runpy.run_path(str(Path(__file__).with_name("extremes.py")))
    ends, lost = tried["run"]()
    assert ends.total() > 1000
    assert not lost, "\n".join(lost)
