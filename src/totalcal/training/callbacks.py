"""What may watch a run: a progress bar, TensorBoard, anything of the user's own."""

from typing import NamedTuple

from totalcal.process import TuringProcess
from totalcal.training.history import EpochReport, StepReport


class Plan(NamedTuple):
    """What a run is about to do."""

    model: TuringProcess
    epochs: int
    steps: int
    """Steps an epoch."""


class Callback:
    """Override what is of interest; every rank of a data-parallel run calls its own callbacks."""

    def started(self, plan: Plan) -> None:
        """Before the first step, also of a resumed run."""

    def stepped(self, report: StepReport) -> None:
        """After each gradient step."""

    def epoch_ended(self, report: EpochReport) -> None:
        """After an epoch and its validation; its checkpoint is not written yet."""

    def ended(self) -> None:
        """After the run, whether it came to its end, was interrupted or failed."""
