"""Extreme numbers end in finite answers or clear errors, and leave every model as it was."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_no_extreme_number_gives_a_wrong_answer_or_a_traceback():
    script = Path(__file__).with_name("extremes.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
