"""The checkpoints of a run: the last, the one before it, and the best.

A file is one header line with format and checksum, then what `torch.save` wrote.

`torch.save` keeps strides. The moments of a fused optimiser must lie in memory as their weights do, and a
format that stores tensors contiguously breaks that for channels_last weights without a word.
"""

import hashlib
import io
import json
import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import torch

from totalcal.errors import CheckpointError, DamagedCheckpointError
from totalcal.whole_files import whole_file

FORMAT = 1
_MAGIC = "totalcal checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """A run between two steps; `epoch` and `step` are the next to be done. The memory is part of `model`.

    No generator is here: every draw of a run follows from its seed and from where it stands.
    """

    configuration: dict[str, Any]
    epoch: int
    step: int
    model: dict[str, Any]
    optimizer: dict[str, Any]
    schedule: dict[str, Any]
    precision: dict[str, Any]
    history: dict[str, Any]
    tally: dict[str, Any]
    best: dict[str, Any]


def write_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Whoever reads `path` sees all of it or none."""
    buffer = io.BytesIO()
    torch.save({entry.name: getattr(checkpoint, entry.name) for entry in fields(checkpoint)}, buffer)
    payload = buffer.getbuffer()
    header = {"what": _MAGIC, "format": FORMAT, "sha256": hashlib.sha256(payload).hexdigest()}
    with whole_file(path) as file:
        file.write(json.dumps(header).encode() + b"\n")
        file.write(payload)


def read_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint, or an error that says what is wrong with the file. Runs no code that it may hold."""
    with path.open("rb") as file:
        header = _header(file.readline(1024), path)
        payload = file.read()
    if header["format"] > FORMAT:
        raise CheckpointError(
            f"{path} has checkpoint format {header['format']}, but this totalcal reads up to {FORMAT}. "
            "Upgrade totalcal, or start the run in another folder."
        )
    if hashlib.sha256(payload).hexdigest() != header["sha256"]:
        raise DamagedCheckpointError(f"{path} is damaged: its checksum does not match its content.")
    return Checkpoint(**torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True))


def _header(line: bytes, path: Path) -> dict[str, Any]:
    try:
        header: dict[str, Any] = json.loads(line)
        if (
            header["what"] == _MAGIC
            and isinstance(header["format"], int)
            and isinstance(header["sha256"], str)
        ):
            return header
    except (ValueError, KeyError, TypeError):
        pass
    raise DamagedCheckpointError(f"{path} is no checkpoint of totalcal, or its beginning is damaged.")


class CheckpointFolder:
    """`last.pt`, `previous.pt`, `best.pt`; whenever the process dies, last or previous is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last, self.previous, self.best = path / "last.pt", path / "previous.pt", path / "best.pt"

    def save(self, checkpoint: Checkpoint, best: bool = False) -> None:
        """The best goes first, so that a run resumed from the last never misses it."""
        self.path.mkdir(parents=True, exist_ok=True)
        if best:
            write_checkpoint(checkpoint, self.best)
        fresh = self.path / "fresh.pt"
        write_checkpoint(checkpoint, fresh)
        if self.last.exists():
            self.last.replace(self.previous)
        fresh.replace(self.last)

    def load(self) -> Checkpoint | None:
        """The last checkpoint; the one before where the last is damaged; None where nothing was saved.

        A damaged last is put aside, so that it never takes the place of a good previous.
        """
        if not self.last.exists():
            return read_checkpoint(self.previous) if self.previous.exists() else None
        try:
            return read_checkpoint(self.last)
        except DamagedCheckpointError as damage:
            if not self.previous.exists():
                raise DamagedCheckpointError(
                    f"{damage} There is no earlier one: delete it to start anew."
                ) from None
            earlier = read_checkpoint(self.previous)
            self.last.replace(self.path / "damaged.pt")
            warnings.warn(f"{damage} Going on from {self.previous}; it is kept as damaged.pt.", stacklevel=2)
            return earlier


def load_checkpoint(folder: str | Path, which: Literal["last", "best"] = "last") -> Checkpoint:
    """What `fit(…, checkpoints=folder)` left; `model.load_state_dict(checkpoint.model)` takes it up."""
    files = CheckpointFolder(Path(folder))
    checkpoint = files.load() if which == "last" else _best(files)
    if checkpoint is None:
        raise CheckpointError(
            f"there is no {which} checkpoint in {folder}. Train with fit(…, checkpoints=…) first."
        )
    return checkpoint


def _best(files: CheckpointFolder) -> Checkpoint | None:
    return read_checkpoint(files.best) if files.best.exists() else None
