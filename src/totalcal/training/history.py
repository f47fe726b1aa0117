"""What a run leaves behind: numbers per step, means per epoch."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from totalcal.types import LossTerms, Movement

MEANS = ("loss", "expected_nll", "local_kl", "latent_kl", "weight_kl", "memory_movement")


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
        cls, epoch: int, step: int, rows: int, loss: Tensor, terms: LossTerms, movement: Movement
    ) -> "StepReport":
        """All numbers are fetched at once: a device is asked for them once per step."""
        numbers = [loss, *terms[:4], movement.mean]
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
        self.sums = sums or [0.0] * len(MEANS)

    def add(self, report: StepReport) -> None:
        self.rows += report.rows
        self.sums = [
            old + report.rows * getattr(report, name) for name, old in zip(MEANS, self.sums, strict=True)
        ]

    def means(self) -> dict[str, float]:
        return {name: total / self.rows for name, total in zip(MEANS, self.sums, strict=True)}

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
        judged = [report for report in self.epochs if report.validation_nll is not None]
        if not judged:
            return None
        return min(judged, key=lambda report: _comparable(report.validation_nll)).epoch

    def epochs_without_progress(self) -> int:
        """How long ago the best epoch was; 0 without validation data."""
        return 0 if self.best_epoch is None else self.epochs[-1].epoch - self.best_epoch

    def as_plain(self) -> dict[str, Any]:
        """Lists and numbers only, as a checkpoint or a JSON file holds them."""
        return {"epochs": [report._asdict() for report in self.epochs], "seconds": list(self.seconds)}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "History":
        return cls([EpochReport(**report) for report in plain["epochs"]], list(plain["seconds"]))


def _comparable(nll: float | None) -> float:
    return math.inf if nll is None or math.isnan(nll) else nll
