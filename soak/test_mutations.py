"""Files damaged at random end in the right answer or in a clear error; `make soak` tries many more."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("mutations.py")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited as Linux has it")
def test_every_reader_survives_damaged_files():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--mutations", "3008"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
