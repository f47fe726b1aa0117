"""How high a bar stands: a promise, and the threshold that keeps it.

All rules read scores (higher is less certain) of held-out rows and which of them were answered wrongly. All
promises assume that new rows are exchangeable with the held-out ones: drawn alike, and neither trained on nor
used to choose the score. What comes from another domain is outside of any promise about errors.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from totalcal.errors import GateError, InputError
from totalcal.scores.arrays import Floats, Integers

Flags = npt.NDArray[np.bool_]

_CANDIDATES = 20  # thresholds that a Risk tries: one for each twentieth of the held-out rows

ROUNDING = 1e-4
"""Relative: scores closer than that may be one score, computed beside other rows. Without it equal inputs, of
which tables have many, would stand above a threshold that is their own score."""


def is_accepted(scores: Floats, threshold: float | Floats) -> Flags:
    """Which scores are not above the threshold, but for rounding."""
    with np.errstate(over="ignore"):  # the largest threshold there is accepts everything
        accepted: Flags = scores <= threshold + _rounding(threshold)
    return accepted


def _rounding(values: float | Floats) -> Floats:
    return np.where(np.isinf(values), 0.0, ROUNDING * np.abs(values))


class Rule(Protocol):
    """From held-out rows to a threshold: rows with a score ≤ threshold are accepted."""

    def threshold(self, scores: Floats, wrong: Flags) -> float: ...

    @property
    def promise(self) -> str: ...

    @property
    def fewest_rows(self) -> int:
        """How many rows it should have: right answers, if it is about these."""


@dataclass(frozen=True)
class FalseRejection:
    """Of the inputs that are answered correctly, a share of at most `rate` is rejected.

    On average over held-out sets, exactly at any size: with n right answers the threshold is the
    ⌈(1 − rate)(n + 1)⌉-th smallest of their scores, as in split conformal prediction.
    """

    rate: float = 0.05

    def __post_init__(self) -> None:
        check_share(self.rate, "the rate of false rejections")

    def threshold(self, scores: Floats, wrong: Flags) -> float:
        """The largest score that is accepted, from held-out rows."""
        return conformal_quantile(scores[~wrong], 1 - self.rate, "right answers")

    @property
    def promise(self) -> str:
        """What holds for new rows, in words."""
        return f"of the inputs answered correctly, at most {self.rate:.3g} are rejected (on average)"

    @property
    def fewest_rows(self) -> int:
        """Right answers, so that the threshold is not the largest score."""
        return rows_for(self.rate)


@dataclass(frozen=True)
class Coverage:
    """A share of at least `share` of all inputs is accepted, on average over held-out sets, at any size."""

    share: float

    def __post_init__(self) -> None:
        check_share(self.share, "the coverage")

    def threshold(self, scores: Floats, wrong: Flags) -> float:
        """The largest score that is accepted, from held-out rows."""
        return conformal_quantile(scores, self.share, "rows")

    @property
    def promise(self) -> str:
        """What holds for new rows, in words."""
        return f"at least {self.share:.3g} of the inputs are accepted (on average)"

    @property
    def fewest_rows(self) -> int:
        """Rows, so that the threshold is not the largest score."""
        return rows_for(1 - self.share)


@dataclass(frozen=True)
class Risk:
    """P(wrong | accepted) ≤ `limit`, with probability `confidence` over the draw of the held-out set.

    The candidates lie below the order statistics X₍ₖ₎ at fixed ranks k, by more than rounding, and at ∞.
    Given X₍ₖ₎ the rows below it are independent draws from the distribution of a row below it, and so are
    those below the candidate; hence the Clopper–Pearson bound on their error rate holds. With
    (1 − confidence) / 20 for each of the 20 candidates all bounds hold at once, and the candidate that
    accepts most among those whose bound is low enough may be chosen freely.
    """

    limit: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        check_share(self.limit, "the limit of the risk")
        check_share(self.confidence, "the confidence")

    def threshold(self, scores: Floats, wrong: Flags) -> float:
        """The largest score that is accepted, from held-out rows."""
        if len(scores):
            candidates = _candidates(scores)
            below = is_accepted(scores, candidates[:, None])  # [candidates, rows]
            safe = self.bounds((below & wrong).sum(1), below.sum(1)) <= self.limit
            if safe.any():  # the first safe one accepts most
                return float(candidates[safe.argmax()])
        raise GateError(
            f"no threshold keeps the risk at {self.limit:.3g} with confidence {self.confidence:.3g} on "
            f"{len(scores)} held-out rows, of which {int(wrong.sum())} were answered wrongly; even without a "
            f"mistake it takes {self.fewest_rows} accepted rows. Hold out more rows, or raise the limit."
        )

    def bounds(self, mistakes: Integers, accepted: Integers) -> Floats:
        """The upper Clopper–Pearson limit of each candidate's risk; 1 where nothing right is accepted."""
        from scipy.special import betaincinv

        level = 1 - (1 - self.confidence) / _CANDIDATES
        right = accepted - mistakes
        return np.where(right > 0, betaincinv(mistakes + 1, np.maximum(right, 1), level), 1.0)

    @property
    def promise(self) -> str:
        """What holds for new rows, in words."""
        return (
            f"of the accepted inputs, at most {self.limit:.3g} are answered wrongly "
            f"(with confidence {self.confidence:.3g})"
        )

    @property
    def fewest_rows(self) -> int:
        """(1 − limit)ⁿ ≤ (1 − confidence) / 20: so many right answers in a row prove the limit."""
        return math.ceil(math.log((1 - self.confidence) / _CANDIDATES) / math.log1p(-self.limit))


def _candidates(scores: Floats) -> Floats:
    """∞, then just below the order statistics at 19/20, 18/20, …: from accepting all to accepting few."""
    ranks = np.ceil(len(scores) * np.arange(_CANDIDATES - 1, 0, -1) / _CANDIDATES).astype(int)
    statistics = np.sort(scores)[ranks - 1]
    below = np.minimum(np.nextafter(statistics, -np.inf), statistics - 3 * _rounding(statistics))
    return np.concatenate([[np.inf], below])


def conformal_quantile(scores: Floats, share: float, what: str) -> float:
    """The ⌈share · (n + 1)⌉-th smallest: a new exchangeable score is at most that in ≥ `share` of cases."""
    rank = math.ceil(share * (len(scores) + 1) - 1e-9)  # 0.95 · 20 is a little more than 19 in floating point
    if rank > len(scores):
        raise GateError(
            f"a share of {share:.4g} needs at least {math.ceil(share / (1 - share) - 1e-9)} held-out {what}, "
            f"but there are {len(scores)}. Hold out more, or ask for less."
        )
    return float(np.sort(scores)[rank - 1])


def rows_for(rate: float) -> int:
    """How many rows a rate needs so that its bar is not the single most extreme one: ⌈2 / rate⌉ − 1.

    >>> rows_for(0.05)
    39
    """
    return math.ceil(2 / rate - 1e-9) - 1


def check_share(value: float, what: str) -> None:
    """Raises InputError unless the value lies strictly between 0 and 1."""
    if not 0 < value < 1:
        raise InputError(f"{what} must lie strictly between 0 and 1, but is {value}.")
