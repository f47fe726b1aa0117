"""A device that is not there (`simulated/device.py`): what models owe, and all that a user does, on it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CONTRACTS = [TESTS / "contracts" / f"test_{name}.py" for name in ("prediction", "joint", "training")]


def passes_on_a_simulated_device(*asked: object) -> None:
    options = "-q", "-p", "no:randomly", "-p", "no:xdist"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *map(str, asked)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TOTALCAL_SIMULATED_DEVICE": "1"},
    )
    assert done.returncode == 0, done.stdout[-6000:]


def test_everything_works_on_a_simulated_device():
    passes_on_a_simulated_device(TESTS / "simulated" / "checks.py")


def test_the_contract_of_an_etp_holds_on_a_simulated_device():
    passes_on_a_simulated_device(CONTRACTS[0], "-k", "etp")


@pytest.mark.exhaustive
def test_the_contract_of_every_model_holds_on_a_simulated_device():
    passes_on_a_simulated_device(*CONTRACTS)
