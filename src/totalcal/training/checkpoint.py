"""The checkpoints of a run (the last, the one before it, the best), and how a run is resumed from them.

A file is one header line with format and checksum, then what `torch.save` wrote.

`torch.save` keeps strides. The moments of a fused optimiser must lie in memory as their weights do, and a
format that stores tensors contiguously breaks that for channels_last weights without a word.
"""

import hashlib
import io
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from totalcal.errors import CheckpointError, DamagedCheckpointError
from totalcal.files.reading import parse_json
from totalcal.files.whole_files import exclusive, whole_file
from totalcal.training.batches import reseed
from totalcal.training.history import History, Tally
from totalcal.training.loop import Trainer
from totalcal.training.optimizers import PlannedSchedule
from totalcal.training.options import RunSettings
from totalcal.training.sources import Source, checksum

if TYPE_CHECKING:
    from lightning_fabric import Fabric

FORMAT = 1
_MAGIC = "totalcal checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """A run between two steps; `epoch` and `step` are the next to be done. The memory is part of `model`.

    `model` is what a user gets. Where that is an average over steps, `averaging` is what training goes on
    from. No generator is here: every draw of a run follows from its seed and from where it stands.
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
    averaging: dict[str, Any]


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
        line, payload = file.readline(1024), file.read()
    try:
        header = parse_json(line.decode(), str(path))
        is_ours, found, digest = header["what"] == _MAGIC, header["format"], header["sha256"]
    except (ValueError, KeyError, TypeError):
        is_ours = False
    if not (is_ours and isinstance(found, int) and isinstance(digest, str)):
        raise DamagedCheckpointError(f"{path} is not a checkpoint of totalcal, or its beginning is damaged.")
    if found != FORMAT:
        raise CheckpointError(
            f"{path} has checkpoint format {found}, but this version of totalcal reads {FORMAT}. "
            "Use the version that wrote it, or start the run in another folder."
        )
    if hashlib.sha256(payload).hexdigest() != digest:
        raise DamagedCheckpointError(f"{path} is damaged: its checksum does not match its content.")
    try:
        read = Checkpoint(**torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True))
    except Exception as error:  # a forged file has the right checksum of whatever it holds
        raise DamagedCheckpointError(f"{path} holds no checkpoint ({type(error).__name__}).") from error
    counts = (read.epoch, read.step)
    others = [getattr(read, entry.name) for entry in fields(read) if entry.name not in ("epoch", "step")]
    are_counts = all(type(each) is int and each >= 0 for each in counts)
    if not are_counts or not all(isinstance(each, dict) for each in others):
        raise DamagedCheckpointError(f"{path} holds no checkpoint: its parts are of other kinds.")
    return read


class CheckpointFolder:
    """`last.pt`, `previous.pt`, `best.pt`; last or previous is intact whenever the process dies."""

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
    if which == "last":
        checkpoint = files.load()
    else:
        checkpoint = read_checkpoint(files.best) if files.best.exists() else None
    if checkpoint is None:
        raise CheckpointError(
            f"there is no {which} checkpoint in {folder}. Train with fit(…, checkpoints=…) first."
        )
    return checkpoint


@dataclass(frozen=True)
class Checkpointer:
    """Rank 0 reads and writes, and broadcasts what it read: machines need no shared disk."""

    folder: Path
    every_steps: int | None
    configuration: dict[str, Any]
    fabric: "Fabric"
    schedule: PlannedSchedule

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder, so that no other process trains in it.

        Raises:
            CheckpointError: Another process trains there.
        """
        if not self.fabric.is_global_zero:
            yield
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        busy = CheckpointError(
            f"another process trains in {self.folder} just now. Wait for it, or choose another folder."
        )
        with exclusive(self.folder / ".lock", busy):
            yield

    def resume(self, run: Trainer) -> None:
        """Resume from the last checkpoint, if there is one."""
        files = CheckpointFolder(self.folder)
        found: Checkpoint | None = self.fabric.broadcast(files.load() if self.fabric.is_global_zero else None)
        if found is None:
            return
        check_same(found.configuration, self.configuration, self.folder)
        try:
            run.weights.load(found.model, found.averaging)
            run.optimizer.load_state_dict(found.optimizer)
            self.schedule.load_state_dict(found.schedule)
            self.fabric.strategy.precision.load_state_dict(found.precision)
            run.history, run.tally = History.from_plain(found.history), Tally(**found.tally)
        except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise CheckpointError(
                f"the checkpoint in {self.folder} does not hold what this run needs ({str(error)[:200]}). "
                "totalcal did not write it: start the run in another folder."
            ) from error
        run.epoch, run.step = found.epoch, found.step
        run.stopping.best = found.best

    def after_step(self, run: Trainer) -> None:
        if self.every_steps and run.step % self.every_steps == 0:
            self._save(run, best=False)

    def after_epoch(self, run: Trainer) -> None:
        self._save(run, best=run.history.best_epoch == run.epoch - 1)

    def _save(self, run: Trainer, best: bool) -> None:
        if self.fabric.is_global_zero:
            checkpoint = Checkpoint(
                configuration=self.configuration,
                epoch=run.epoch,
                step=run.step,
                model=run.weights.model_state(),
                optimizer=run.optimizer.state_dict(),
                schedule=self.schedule.state_dict(),
                precision=self.fabric.strategy.precision.state_dict(),
                history=run.history.as_plain(),
                tally=run.tally.as_plain(),
                best=run.stopping.best,
                averaging=run.weights.state_dict(),
            )
            CheckpointFolder(self.folder).save(checkpoint, best)
        self.fabric.barrier()


def configuration(settings: RunSettings, model: nn.Module, data: Source, ranks: int) -> dict[str, Any]:
    """Settings, model, data and what else changes the numbers, as plain entries of a checkpoint."""
    reseed(torch.device("cpu"), settings.seed)  # data that draws while it is read draws the same each time
    return asdict(settings) | {
        "model": layers_of(model),
        "examples": len(data),
        "data": checksum(data, settings.batch_size),
        "ranks": ranks,
    }


def layers_of(model: nn.Module) -> dict[str, str]:
    """Every module's kind and plain settings, and every parameter's and buffer's shape, by name."""
    modules = {name or "model": _settings(module) for name, module in model.named_modules()}
    tensors = {name: f"{tuple(value.shape)} {value.dtype}" for name, value in model.state_dict().items()}
    return modules | tensors


def check_same(found: Mapping[str, Any], ours: Mapping[str, Any], folder: object) -> None:
    """Raise if a checkpoint was written by another configuration, and say what differs."""
    differences = list(_differences(found, ours))
    if differences:
        shown = "; ".join(differences[:3]) + ("; …" if len(differences) > 3 else "")
        raise CheckpointError(
            f"the checkpoint in {folder} is of another run: {shown}.\n"
            "  Go back to its settings, or give this run a folder of its own."
        )


def _settings(module: nn.Module) -> str:
    plain = {  # not how a module was made (`origin`): what came of it is described setting by setting
        name: text
        for name, value in vars(module).items()
        if not name.startswith("_") and name not in {"training", "origin"} and (text := _plain(value))
    }
    return f"{type(module).__qualname__}({', '.join(f'{name}={plain[name]}' for name in sorted(plain))})"


def _plain(value: Any) -> str:
    """A setting as text that is the same in every process; empty for what is not a setting."""
    if isinstance(value, bool | int | float | str | tuple | list | Enum | None):
        return repr(value)
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    if type(value).__module__.startswith("totalcal.") and hasattr(value, "__dict__"):
        return f"{type(value).__qualname__}({vars(value)})"
    return ""


def _differences(found: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(found.keys() | ours.keys()):
        theirs, mine = found.get(name), ours.get(name)
        if isinstance(theirs, Mapping) and isinstance(mine, Mapping):
            yield from _differences(theirs, mine)
        elif theirs != mine:
            yield f"{name} was {theirs}, now {mine}"
