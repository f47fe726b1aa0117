"""Checkpoint files that are damaged, newer or missing.

A run that is killed, again and again, ends with the bits of one that was not.
"""

import hashlib
import io
import json
import random
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock

import totalcal
from totalcal.errors import CheckpointError, DamagedCheckpointError
from totalcal.files import whole_files
from totalcal.nets import mlp
from totalcal.training.checkpoint import (
    FORMAT,
    Checkpoint,
    CheckpointFolder,
    load_checkpoint,
    read_checkpoint,
    write_checkpoint,
)


def checkpoint(epoch: int) -> Checkpoint:
    weights = {"weight": torch.arange(6.0).reshape(1, 2, 3, 1).to(memory_format=torch.channels_last)}
    return Checkpoint({"epochs": 9}, epoch, 0, weights, {}, {}, {}, {"epochs": [], "seconds": []}, {}, {}, {})


def flip_a_bit(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)


def test_what_was_written_comes_back_with_its_strides(tmp_path: Path) -> None:
    write_checkpoint(checkpoint(3), tmp_path / "file.pt")
    found = read_checkpoint(tmp_path / "file.pt")
    assert found.epoch == 3
    assert torch.equal(found.model["weight"], checkpoint(3).model["weight"])
    assert found.model["weight"].stride() == checkpoint(3).model["weight"].stride()
    assert [file.name for file in tmp_path.iterdir()] == ["file.pt"]


@pytest.mark.parametrize("position", [3, 40, 500, -1])
def test_one_flipped_bit_is_found(position: int, tmp_path: Path) -> None:
    write_checkpoint(checkpoint(1), tmp_path / "file.pt")
    flip_a_bit(tmp_path / "file.pt", position)
    with pytest.raises(CheckpointError):
        read_checkpoint(tmp_path / "file.pt")


def test_a_torn_last_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(checkpoint(1))
    folder.save(checkpoint(2))
    folder.last.write_bytes(folder.last.read_bytes()[:700])
    with pytest.warns(UserWarning, match="damaged"):
        found = folder.load()
    assert found is not None
    assert found.epoch == 1
    folder.save(checkpoint(2))  # the damaged file does not take the place of the good one
    assert read_checkpoint(folder.previous).epoch == 1


def test_a_damaged_checkpoint_without_an_earlier_one_is_refused(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(checkpoint(1))
    flip_a_bit(folder.last, 600)
    with pytest.raises(DamagedCheckpointError, match="start anew"):
        folder.load()


@pytest.mark.parametrize("forged", [{"epoch": "x"}, {"model": [1]}, {"step": -1}, {"more": 1}])
def test_a_forged_checkpoint_with_a_right_checksum_gives_way_to_the_one_before(
    forged: dict[str, Any], tmp_path: Path
) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(checkpoint(1))
    folder.save(checkpoint(2))
    content = io.BytesIO()
    torch.save(vars(checkpoint(2)) | forged, content)
    header = {"what": "totalcal checkpoint", "format": 1}
    header["sha256"] = hashlib.sha256(content.getvalue()).hexdigest()
    folder.last.write_bytes(json.dumps(header).encode() + b"\n" + content.getvalue())
    with pytest.warns(UserWarning, match="holds no checkpoint"):
        found = folder.load()
    assert found is not None
    assert found.epoch == 1


def test_a_header_that_nests_without_end_is_damage(tmp_path: Path) -> None:
    (tmp_path / "last.pt").write_bytes(b"[" * 100_000 + b"\n")
    with pytest.raises(DamagedCheckpointError):
        load_checkpoint(tmp_path)


def test_another_format_is_refused_whatever_it_holds(tmp_path: Path) -> None:
    header = {"what": "totalcal checkpoint", "format": FORMAT + 1, "sha256": ""}
    (tmp_path / "last.pt").write_bytes(json.dumps(header).encode() + b"\n???")
    with pytest.raises(CheckpointError, match="format"):
        load_checkpoint(tmp_path)


def test_best_and_last_are_kept_apart(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(checkpoint(1), best=True)
    folder.save(checkpoint(2))
    assert load_checkpoint(tmp_path, "best").epoch == 1
    assert load_checkpoint(tmp_path).epoch == 2


@pytest.mark.parametrize("which", ["last", "best"])
def test_an_empty_folder_has_no_checkpoint(which: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"no {which} checkpoint"):
        load_checkpoint(tmp_path, which)  # type: ignore[arg-type]


def test_a_folder_in_which_another_process_trains_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_files, "PATIENCE", 0.1)
    data = torch.randn(8, 2), torch.arange(8) % 2
    model = totalcal.softmax(mlp(2, 2, hidden=(2,)), num_classes=2)
    with FileLock(tmp_path / ".lock"), pytest.raises(CheckpointError, match="another process"):
        totalcal.fit(model, data, epochs=1, checkpoints=tmp_path, progress=False)
    totalcal.fit(model, data, epochs=1, checkpoints=tmp_path, progress=False)
    assert load_checkpoint(tmp_path).epoch == 1


_KILLS = 3


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
