"""A device that is not there (`simulated/device.py`): all that a user does, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

CHECKS = Path(__file__).parents[1] / "simulated" / "checks.py"


def test_everything_works_on_a_simulated_device():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:xdist", str(CHECKS)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TOTALCAL_SIMULATED_DEVICE": "1"},
    )
    assert done.returncode == 0, done.stdout[-6000:]
