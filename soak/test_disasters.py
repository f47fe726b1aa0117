"""Kills, disks, clocks and other processes cost nothing but time; `make soak` tries many more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="work is done in forks")
def test_no_fault_loses_or_changes_a_result():
    script = Path(__file__).with_name("disasters.py")
    command = [sys.executable, str(script), "--cases", "17"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
