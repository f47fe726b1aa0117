"""A checkpoint file: one header line with format and checksum, then what `torch.save` wrote.

`torch.save` keeps strides. The moments of a fused optimiser must lie in memory as their weights do, and a
format that stores tensors contiguously breaks that for channels_last weights without a word.
"""

import hashlib
import io
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

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
