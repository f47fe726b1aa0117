"""The gate: accepts or rejects predictions, says why, and what its thresholds cost on held-out data."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np

from totalcal.errors import GateError
from totalcal.rejection.rules import FalseRejection, Flags, Rule
from totalcal.scores.arrays import Floats, Values, plain
from totalcal.scores.checks import check_predictions
from totalcal.types import Predictive
from totalcal.uncertainties import uncertainty

ACCEPT = "accept"

OVERLAP_AND_DOMAIN: Mapping[str, str] = MappingProxyType(
    {"mutual_information": "not my domain", "data": "ask a person"}
)
"""Two bars at once. Domain mismatch comes first: that classes overlap says nothing of an OOD input."""


@dataclass(frozen=True)
class Bar:
    """Rejects where a score is above a threshold, with a verdict."""

    score: str
    threshold: float
    verdict: str

    def why(self, value: float) -> str:
        return f"{self.score} {value:.4g} is above {self.threshold:.4g}"


@dataclass(frozen=True)
class Cost:
    """What a gate did to the held-out rows; a rate of nothing is 0."""

    rows: int
    coverage: float
    error_before: float
    error_after: float
    right_rejected: float
    wrong_rejected: float

    @classmethod
    def of(cls, accepted: Flags, wrong: Flags) -> Self:
        return cls(
            rows=len(accepted),
            coverage=_share(accepted),
            error_before=_share(wrong),
            error_after=_share(wrong[accepted]),
            right_rejected=_share(~accepted[~wrong]),
            wrong_rejected=_share(~accepted[wrong]),
        )

    def __str__(self) -> str:
        return (
            f"on {self.rows} held-out rows it accepts {self.coverage:.1%}; the error falls from "
            f"{self.error_before:.2%} to {self.error_after:.2%}; it rejects {self.right_rejected:.1%} of the "
            f"right and {self.wrong_rejected:.1%} of the wrong answers"
        )


class Decisions(NamedTuple):
    """One entry a row: accepted or not, the verdict in a word, and the reason (empty where accepted)."""

    accepted: Flags
    verdicts: list[str]
    reasons: list[str]


@dataclass(frozen=True)
class Gate:
    """Bars in order of precedence, what they promise, and what they cost on the held-out data."""

    bars: tuple[Bar, ...]
    promise: str
    cost: Cost

    @classmethod
    def fitted(
        cls,
        prediction: Predictive,
        labels: Values,
        rule: Rule | None = None,
        bars: str | Mapping[str, str] = "entropy",
    ) -> Self:
        """A gate from held-out predictions and their labels; by default 5 % false rejections, by entropy.

        `bars` names an uncertainty, or maps several to their verdicts, the one that takes precedence first:
        `OVERLAP_AND_DOMAIN` tells "not my domain" from "ask a person".
        """
        _, truth = check_predictions(prediction.probabilities, labels)
        wrong = plain(prediction.probabilities).argmax(1) != truth
        verdicts = {bars: "too uncertain"} if isinstance(bars, str) else dict(bars)
        whole = rule or FalseRejection()
        each = whole.split(len(verdicts))
        fitted = tuple(
            Bar(score, each.threshold(_telling(prediction, score), wrong), verdict)
            for score, verdict in verdicts.items()
        )
        accepted = np.all([uncertainty(prediction, bar.score) <= bar.threshold for bar in fitted], axis=0)
        return cls(fitted, whole.promise, Cost.of(accepted, wrong))

    def __call__(self, prediction: Predictive) -> Decisions:
        """What to do with each row; the first bar that rejects it gives verdict and reason."""
        rows = len(prediction.probabilities)
        verdicts, reasons = [ACCEPT] * rows, [""] * rows
        for bar in reversed(self.bars):
            values = uncertainty(prediction, bar.score)
            for row in np.flatnonzero(values > bar.threshold):
                verdicts[row], reasons[row] = bar.verdict, bar.why(values[row])
        return Decisions(np.array([verdict == ACCEPT for verdict in verdicts]), verdicts, reasons)

    def __str__(self) -> str:
        rules = "; ".join(f"{bar.score} above {bar.threshold:.4g}: {bar.verdict}" for bar in self.bars)
        return f"{rules}. Promise: {self.promise}. Cost: {self.cost}."

    def as_json(self) -> dict[str, Any]:
        """Plain values for a file; a bar that nothing passes over has no threshold there."""
        return asdict(self) | {
            "bars": [
                asdict(bar) | {"threshold": None if math.isinf(bar.threshold) else bar.threshold}
                for bar in self.bars
            ]
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        bars = [
            Bar(bar["score"], math.inf if bar["threshold"] is None else bar["threshold"], bar["verdict"])
            for bar in content["bars"]
        ]
        return cls(tuple(bars), content["promise"], Cost(**content["cost"]))


def _telling(prediction: Predictive, score: str) -> Floats:
    """A score that differs between rows: a term that a model does not have is 0 everywhere."""
    values = uncertainty(prediction, score)
    if len(values) > 1 and values.max() == values.min():
        raise GateError(
            f"the {score} is {values[0]:.4g} for all {len(values)} held-out rows, so it tells none apart. "
            "This model has no such uncertainty: take another score, such as entropy."
        )
    return values


def _share(flags: Flags) -> float:
    return float(flags.mean()) if flags.size else 0.0
