"""Reports per step and epoch, validation, and early stopping."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from totalcal.inputs import moved, taken
from totalcal.models.process import TuringProcess
from totalcal.scores.fit import nll
from totalcal.training.sources import Source, labelled_batch
from totalcal.types import Batch, ContextUse, LossTerms, MemoryUpdate, Predictor

REPORTED = ("loss", "expected_nll", "local_kl", "latent_kl", "weight_kl", "memory_movement")


class StepReport(NamedTuple):
    """One gradient step as plain numbers."""

    epoch: int
    step: int
    rows: int
    loss: float
    expected_nll: float
    local_kl: float
    latent_kl: float
    weight_kl: float
    memory_movement: float

    @classmethod
    def of(
        cls, epoch: int, step: int, rows: int, loss: Tensor, terms: LossTerms, update: MemoryUpdate
    ) -> "StepReport":
        """All numbers are fetched at once: a device is asked for them once per step."""
        numbers = [loss, *terms[:4], update.mean]
        return cls(epoch, step, rows, *torch.stack([number.detach().to(loss) for number in numbers]).tolist())


class EpochReport(NamedTuple):
    """The means of an epoch over its rows, epochs counted from 0; times stand apart, in `History.seconds`."""

    epoch: int
    learning_rate: float
    loss: float
    expected_nll: float
    local_kl: float
    latent_kl: float
    weight_kl: float
    memory_movement: float
    validation_nll: float | None


class Tally:
    """Sums over the steps of an epoch, weighted by their rows."""

    def __init__(self, rows: int = 0, sums: list[float] | None = None) -> None:
        self.rows = rows
        self.sums = sums or [0.0] * len(REPORTED)

    def add(self, report: StepReport) -> None:
        self.rows += report.rows
        self.sums = [
            old + report.rows * getattr(report, name) for name, old in zip(REPORTED, self.sums, strict=True)
        ]

    def means(self) -> dict[str, float]:
        return {name: total / self.rows for name, total in zip(REPORTED, self.sums, strict=True)}

    def as_plain(self) -> dict[str, Any]:
        return {"rows": self.rows, "sums": list(self.sums)}


@dataclass
class History:
    """A report and a time for each epoch of a run, resumed or not."""

    epochs: list[EpochReport] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def best_epoch(self) -> int | None:
        """The epoch of the lowest validation NLL, the first of equals; None without validation data."""
        nlls = {each.epoch: each.validation_nll for each in self.epochs if each.validation_nll is not None}
        comparable = {epoch: math.inf if math.isnan(nll) else nll for epoch, nll in nlls.items()}
        return min(comparable, key=comparable.__getitem__, default=None)

    def as_plain(self) -> dict[str, Any]:
        """As lists and numbers, for a checkpoint or a JSON file."""
        return {"epochs": [report._asdict() for report in self.epochs], "seconds": list(self.seconds)}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "History":
        return cls([EpochReport(**report) for report in plain["epochs"]], list(plain["seconds"]))


class EarlyStopping:
    """Ends a run whose validation NLL has not fallen for `patience` epochs, with the model of the best epoch.

    Without patience it neither ends a run nor keeps a model.
    """

    def __init__(self, patience: int | None) -> None:
        self.patience = patience
        self.best: dict[str, Tensor] = {}

    def update(self, history: History, model: nn.Module) -> None:
        """After an epoch: keep a copy of the model if it is the best so far."""
        if self.patience is not None and history.best_epoch == history.epochs[-1].epoch:
            self.best = {name: value.detach().clone() for name, value in model.state_dict().items()}

    def is_over(self, history: History) -> bool:
        best = history.best_epoch
        since = 0 if best is None else history.epochs[-1].epoch - best
        return self.patience is not None and since >= self.patience

    def restore_best(self, model: nn.Module) -> None:
        if self.best:
            model.load_state_dict(self.best)


@torch.no_grad()
def validation_nll(
    model: TuringProcess, source: Source, context: Batch | None, device: torch.device
) -> float:
    """The NLL of the predictive distribution, as a user would see it; the model's mode is left as it was."""
    training = model.training
    model.eval()
    probabilities, truth = [], []
    for inputs, labels in map(labelled_batch, source.batches(256)):
        probabilities.append(model.predict(moved(inputs, device), context=context).probabilities.cpu())
        truth.append(labels.cpu())
    model.train(training)
    return nll(torch.cat(probabilities).numpy(), torch.cat(truth).numpy())


def context_for(
    model: TuringProcess,
    source: Source,
    rows: int,
    generator: torch.Generator | None = None,
    device: torch.device | None = None,
) -> Batch | None:
    """Some training rows for a model that cannot predict without a context, none for the others.

    The first ones of an epoch: drawn with a generator, in the source's own order without one.
    """
    if model.context_use is not ContextUse.REQUIRED:
        return None
    inputs, labels = labelled_batch(next(iter(source.batches(rows, generator))))
    some = slice(0, rows)
    chosen = Batch(taken(inputs, some), labels[some])
    return chosen if device is None else Batch(moved(chosen.inputs, device), chosen.labels.to(device))


def with_context(model: TuringProcess, source: Source, rows: int) -> Predictor:
    """A predictor that needs inputs alone: a model that requires a context gets one from the source."""
    context = context_for(model, source, rows)
    return model if context is None else model.given(context)
