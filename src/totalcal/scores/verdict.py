"""The verdict on one predictor: model fit, class overlap, domain mismatch, and how they were measured."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from totalcal.errors import printable
from totalcal.scores.arrays import Floats, Integers
from totalcal.scores.calibration import CalibrationError, Reliability
from totalcal.scores.ranking import Ranking

if TYPE_CHECKING:
    from rich.console import Group

    from totalcal.types import Sampling


@dataclass(frozen=True)
class Observed:
    """What was predicted for each row of a set, without the draws."""

    probabilities: Floats  # [n, classes]: p(y | x)
    uncertainties: dict[str, Floats]  # [n] each, by the names of UNCERTAINTIES
    terms: Floats  # [n, 3]: reducible, irreducible, data, summed over the classes
    sampling: "Sampling"
    labels: Integers | None = None  # [n]
    log_likelihoods: Floats | None = None  # [n]: log p(y | x), where there are labels

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def classes(self) -> int:
        return int(self.probabilities.shape[1])

    @property
    def entropy(self) -> Floats:
        return self.uncertainties["entropy"]

    @classmethod
    def joined(cls, parts: Sequence["Observed"]) -> "Observed":
        """Several blocks of one set, in order."""
        labels = [part.labels for part in parts if part.labels is not None]
        likelihoods = [part.log_likelihoods for part in parts if part.log_likelihoods is not None]
        return cls(
            probabilities=np.concatenate([part.probabilities for part in parts]),
            uncertainties={
                name: np.concatenate([part.uncertainties[name] for part in parts])
                for name in parts[0].uncertainties
            },
            terms=np.concatenate([part.terms for part in parts]),
            sampling=parts[-1].sampling,
            labels=np.concatenate(labels) if labels else None,
            log_likelihoods=np.concatenate(likelihoods) if likelihoods else None,
        )


class Observations(NamedTuple):
    """What was predicted for each row of the test set and of every OOD set."""

    test: Observed
    ood: dict[str, Observed]


@dataclass(frozen=True)
class OutOfDistribution:
    """One member of the panel: how many inputs, and how each uncertainty ranks them; OOD is positive."""

    examples: int
    rankings: dict[str, Ranking]


@dataclass(frozen=True)
class Verdict:
    """All scores of one predictor, as fractions. `uncertainty` is the one that AUROC and the like are by."""

    error: float
    nll: float
    brier: float
    ece: CalibrationError
    ece_100: CalibrationError
    ece_classwise: CalibrationError
    ece_debiased: CalibrationError
    ece_smooth: CalibrationError
    reliability: Reliability
    aurc: float
    excess_aurc: float
    augrc: float
    majority_error: float
    panel: dict[str, OutOfDistribution]
    uncertainty: str
    examples: int
    classes: int
    sampling: "Sampling"
    seed: int
    batch_size: int
    observed: Observations = field(repr=False, compare=False)

    @property
    def bins(self) -> int:
        """How many bins the calibration error has."""
        return self.ece.bins

    @property
    def draws(self) -> int | str:
        """How many draws each prediction has; 0 where nothing was drawn, or "moments"."""
        return self.sampling.draws

    @property
    def direction(self) -> str:
        """Overconfident, underconfident or balanced."""
        return self.reliability.direction

    @property
    def learned(self) -> bool:
        """Whether the error lies below that of always answering the most frequent class."""
        return self.error < self.majority_error

    @property
    def auroc(self) -> float | None:
        """The AUROC of the panel's first member, the one a task is known by; None without a panel."""
        return next((self._ranking(name).auroc for name in self.panel), None)

    @property
    def auroc_mean(self) -> float | None:
        """The mean AUROC over the panel; None without OOD sets."""
        values = [self._ranking(name).auroc for name in self.panel]
        return sum(values) / len(values) if values else None

    @property
    def auroc_worst(self) -> float | None:
        """The lowest AUROC of the panel; None without OOD sets."""
        return None if self.worst is None else self._ranking(self.worst).auroc

    @property
    def worst(self) -> str | None:
        """The member of the panel that is told apart worst."""
        return min(self.panel, key=lambda name: self._ranking(name).auroc, default=None)

    def to_dict(self) -> dict[str, float | int | str | None]:
        """Flat, with a key for each score and `score/set` for each member of the panel."""
        return {
            **{key: float(getattr(self, key)) for key in _PLAIN},
            "auroc": self.auroc,
            "auroc_mean": self.auroc_mean,
            "auroc_worst": self.auroc_worst,
            "worst": self.worst,
            **{
                f"{key}/{name}": value
                for name in self.panel
                for key, value in self._ranking(name)._asdict().items()
            },
            **{f"ood_examples/{name}": member.examples for name, member in self.panel.items()},
            "majority_error": self.majority_error,
            "direction": self.direction,
            "uncertainty": self.uncertainty,
            "positive": "out-of-distribution",
            **{
                key: getattr(self, key)
                for key in ("examples", "classes", "draws", "seed", "bins", "batch_size")
            },
        }

    def to_json(self) -> str:
        """The same as one JSON object; what is not finite is null."""
        plain = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in self.to_dict().items()
        }
        return json.dumps(plain, allow_nan=False)

    def __rich__(self) -> "Group":
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table("score", "value")
        table.columns[1].justify = "right"
        for name, value in _rows(self):
            table.add_row(Text(printable(name)), value)
        notes = []
        if self.panel:
            notes.append(f"AUROC by {self.uncertainty}; out-of-distribution (OOD) is the positive class.")
        if not self.learned:
            idle = f"always answering the most frequent class errs {self.majority_error:.2%}"
            notes.append(f"It has learned nothing ({idle}), so its calibration says nothing.")
        title = f"{self.examples} examples, {self.classes} classes, predicted {self.sampling}"
        return Group(title, table, *notes)

    def __str__(self) -> str:
        from rich.console import Console

        paper = StringIO()
        Console(file=paper, width=100, color_system=None).print(self)
        return paper.getvalue().rstrip()

    def _ranking(self, name: str) -> Ranking:
        return self.panel[name].rankings[self.uncertainty]


_PLAIN = (
    "error", "nll", "brier", "ece", "ece_100", "ece_classwise", "ece_debiased", "ece_smooth",
    "aurc", "excess_aurc", "augrc",
)  # fmt: skip


def _rows(verdict: Verdict) -> list[tuple[str, str]]:
    rows = [
        ("error", f"{verdict.error:.2%}"),
        ("NLL", f"{verdict.nll:.4f}"),
        ("Brier", f"{verdict.brier:.4f}"),
        (f"ECE, {verdict.bins} bins ({verdict.direction})", f"{verdict.ece.value:.2%}"),
        ("ECE, 100 bins", f"{verdict.ece_100.value:.2%}"),
        ("AURC", f"{verdict.aurc:.4f}"),
    ]
    rows += [
        (f"AUROC, {name} ({member.examples})", f"{member.rankings[verdict.uncertainty].auroc:.2%}")
        for name, member in verdict.panel.items()
    ]
    if len(verdict.panel) > 1:
        rows.append(("AUROC, mean", f"{verdict.auroc_mean:.2%}"))
        rows.append((f"AUROC, worst ({verdict.worst})", f"{verdict.auroc_worst:.2%}"))
    return rows
