"""The checkpoints of one run: the last, the one before it, and the best."""

import warnings
from pathlib import Path
from typing import Literal

from totalcal.errors import CheckpointError, DamagedCheckpointError
from totalcal.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


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
