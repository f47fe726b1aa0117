"""When a run saves itself, and what it takes up again."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from totalcal.training.checkpoint import Checkpoint
from totalcal.training.configuration import check_same
from totalcal.training.folder import CheckpointFolder
from totalcal.training.state import RunState

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Keeper:
    """Rank 0 reads and writes; the others are told, so that machines need no common disk."""

    folder: Path
    every_steps: int | None
    configuration: dict[str, Any]
    fabric: "Fabric"

    def resume(self, state: RunState) -> None:
        """Bring a run to where its last checkpoint stands, if there is one."""
        files = CheckpointFolder(self.folder)
        found: Checkpoint | None = self.fabric.broadcast(files.load() if self.fabric.is_global_zero else None)
        if found is not None:
            check_same(found.configuration, self.configuration, self.folder)
            state.restore(found)

    def after_step(self, state: RunState) -> None:
        if self.every_steps and state.step % self.every_steps == 0:
            self._save(state, best=False)

    def after_epoch(self, state: RunState) -> None:
        self._save(state, best=state.history.best_epoch == state.epoch - 1)

    def _save(self, state: RunState, best: bool) -> None:
        if self.fabric.is_global_zero:
            CheckpointFolder(self.folder).save(state.checkpoint(self.configuration), best)
        self.fabric.barrier()


class NoKeeper:
    """A run that leaves nothing behind but its model."""

    def resume(self, state: RunState) -> None: ...

    def after_step(self, state: RunState) -> None: ...

    def after_epoch(self, state: RunState) -> None: ...
