"""Everything of a run that changes from step to step, and so stands in its checkpoints."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from totalcal.training.checkpoint import Checkpoint
from totalcal.training.history import History, Tally


@dataclass
class RunState:
    """`epoch` is the one to be done next, `step` how many steps of it are done.

    The model holds its memory; the parts are anything with `state_dict` and `load_state_dict`.
    """

    model: nn.Module
    optimizer: Any
    schedule: Any
    precision: Any
    epoch: int = 0
    step: int = 0
    history: History = field(default_factory=History)
    tally: Tally = field(default_factory=Tally)
    best: dict[str, Tensor] = field(default_factory=dict)
    """The model of the best epoch, where a run is to end with it; else empty."""

    def checkpoint(self, configuration: dict[str, Any]) -> Checkpoint:
        return Checkpoint(
            configuration=configuration,
            epoch=self.epoch,
            step=self.step,
            model=self.model.state_dict(),
            optimizer=self.optimizer.state_dict(),
            schedule=self.schedule.state_dict(),
            precision=self.precision.state_dict(),
            history=self.history.as_plain(),
            tally=self.tally.as_plain(),
            best=self.best,
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        self.model.load_state_dict(checkpoint.model)
        self.optimizer.load_state_dict(checkpoint.optimizer)
        self.schedule.load_state_dict(checkpoint.schedule)
        self.precision.load_state_dict(checkpoint.precision)
        self.epoch, self.step = checkpoint.epoch, checkpoint.step
        self.history = History.from_plain(checkpoint.history)
        self.tally = Tally(**checkpoint.tally)
        self.best = checkpoint.best

    def remember_best(self) -> None:
        """Keep a copy of the model as it is now."""
        self.best = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
