"""A live line about a run: where it is, the terms of the loss, how far the memory moves, the time left."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from totalcal.training.callbacks import Callback, Plan
from totalcal.training.history import EpochReport, StepReport

_TERMS = ("loss", "expected_nll", "local_kl", "latent_kl", "weight_kl", "memory_movement")


class ProgressBar(Callback):
    """A bar over all steps of all epochs, on the standard error stream."""

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
        self.bar.update(self.task, completed=done, epoch=report.epoch + 1, terms=described(report))

    def epoch_ended(self, report: EpochReport) -> None:
        self.console.print(
            f"epoch {report.epoch + 1}/{self.plan.epochs}  {described(report)}", highlight=False
        )

    def ended(self) -> None:
        self.bar.stop()


def described(report: StepReport | EpochReport) -> str:
    """The numbers that are not zero, by name."""
    numbers = {name: getattr(report, name) for name in _TERMS}
    if isinstance(report, EpochReport) and report.validation_nll is not None:
        numbers["validation_nll"] = report.validation_nll
    return "  ".join(f"{name} {value:.4g}" for name, value in numbers.items() if value)


def is_wanted(progress: bool | None) -> bool:
    """What the user said, or whether somebody is looking."""
    return Console(stderr=True).is_terminal if progress is None else progress
