"""A run that is killed, again and again, ends with the bits of one that was not."""

import random
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

_KILLS = 5


def _finish(process: BaseProcess, folder: Path) -> dict[str, Any]:
    process.join(120)
    assert process.exitcode == 0
    result: dict[str, Any] = torch.load(folder / "result.pt", weights_only=True)
    return result


def _kill_at_some_moment(process: BaseProcess, folder: Path) -> None:
    """After its first sign of life in the folder, within the time of some steps."""
    seen, deadline = _last_saved(folder), time.monotonic() + 60
    while _last_saved(folder) == seen and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.0005)
    time.sleep(random.uniform(0, 0.2))
    process.kill()
    process.join()


def _last_saved(folder: Path) -> int | None:
    """When the last checkpoint was written; None where there is none, or while a new one takes its place."""
    try:
        return (folder / "last.pt").stat().st_mtime_ns
    except FileNotFoundError:
        return None


def test_a_killed_run_ends_bit_identical(tmp_path: Path, start_script: Callable[..., BaseProcess]) -> None:
    calm, hunted = tmp_path / "calm", tmp_path / "hunted"
    calm.mkdir()
    hunted.mkdir()
    expected = _finish(start_script("killed_run.py", folder=str(calm)), calm)
    exit_codes = []
    for _ in range(_KILLS):
        process = start_script("killed_run.py", folder=str(hunted))
        _kill_at_some_moment(process, hunted)
        exit_codes.append(process.exitcode)
    assert exit_codes[0] == -9
    result = _finish(start_script("killed_run.py", folder=str(hunted)), hunted)
    assert result["history"] == expected["history"]
    for name, value in expected["model"].items():
        assert torch.equal(result["model"][name], value), name
