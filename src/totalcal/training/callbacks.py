"""Callbacks of a run: the progress bar, TensorBoard, and the base class for your own."""

from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from totalcal.errors import MissingExtraError
from totalcal.models.process import TuringProcess
from totalcal.training.history import REPORTED, EpochReport, StepReport


class Plan(NamedTuple):
    """What a run is about to do."""

    model: TuringProcess
    epochs: int
    steps: int
    """Steps per epoch."""


class Callback:
    """Override what you need; every rank of a data-parallel run calls its own callbacks."""

    def started(self, plan: Plan) -> None:
        """Before the first step, also of a resumed run."""

    def stepped(self, report: StepReport) -> None:
        """After each gradient step."""

    def epoch_ended(self, report: EpochReport) -> None:
        """After an epoch and its validation; its checkpoint is not written yet."""

    def ended(self) -> None:
        """After the run, whether it finished, was interrupted or failed."""


class ProgressBar(Callback):
    """A live line on standard error: progress, loss, and how far the memory moves."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)

    def started(self, plan: Plan) -> None:
        self.plan = plan
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[terms]}"),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task(
            "", total=plan.epochs * plan.steps, epoch=1, epochs=plan.epochs, terms=""
        )
        self.bar.start()

    def stepped(self, report: StepReport) -> None:
        done = report.epoch * self.plan.steps + report.step + 1
        self.bar.update(self.task, completed=done, epoch=report.epoch + 1, terms=_numbers_in(report))

    def epoch_ended(self, report: EpochReport) -> None:
        self.console.print(
            f"epoch {report.epoch + 1}/{self.plan.epochs}  {_numbers_in(report)}", highlight=False
        )

    def ended(self) -> None:
        self.bar.stop()


class TensorBoard(Callback):
    """`fit(…, callbacks=[TensorBoard("runs/first")])`: every number of every epoch."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = folder

    def started(self, plan: Plan) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtraError("tensorboard", "tensorboard", "writing curves for TensorBoard") from None
        self.writer = SummaryWriter(str(self.folder))

    def epoch_ended(self, report: EpochReport) -> None:
        for name, value in report._asdict().items():
            if name != "epoch" and value is not None:
                self.writer.add_scalar(name, value, report.epoch)

    def ended(self) -> None:
        self.writer.close()


def _numbers_in(report: StepReport | EpochReport) -> str:
    """The non-zero numbers of a report, by name."""
    numbers = {name: getattr(report, name) for name in REPORTED}
    if isinstance(report, EpochReport) and report.validation_nll is not None:
        numbers["validation_nll"] = report.validation_nll
    return "  ".join(f"{name} {value:.4g}" for name, value in numbers.items() if value)


def is_wanted(progress: bool | None) -> bool:
    """What the user asked for; by default, whether standard error is a terminal."""
    return Console(stderr=True).is_terminal if progress is None else progress
