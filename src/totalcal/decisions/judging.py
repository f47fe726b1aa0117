"""A judge's scores: from scores and verdicts of people alone, whatever gave the scores.

A language model says .95 of most of its answers; a rule gives points from 1 to 5. All that is known are
some of these scores and whether people found the answers right. From this come a probability for each score
(Venn–Abers predictors, Vovk and Petej 2014: isotonic regression, twice, with the new score taken for right
and for wrong), a threshold above which few answers are wrong, with confidence, and how many more verdicts
that would take where it cannot be had yet.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from totalcal.decisions.rules import Flags, Risk, is_accepted
from totalcal.errors import GateError, InputError, ShapeError
from totalcal.scores.arrays import Floats

_MOST_VERDICTS = 10**6


@dataclass(frozen=True, repr=False)
class JudgedScores:
    """What scores are worth, by the verdicts of people: `judge_scores` makes it.

    Attributes:
        scores: Those that people judged; higher is more certain.
        right: Their verdicts.
        risk: What is promised of the accepted ones.
        threshold: Scores from here on are accepted; None if no threshold can be promised yet.
    """

    scores: tuple[float, ...]
    right: tuple[bool, ...]
    risk: Risk
    threshold: float | None

    def probability(self, scores: npt.ArrayLike) -> Floats:
        """That an answer with such a score is right: one number of the two of `probabilities`.

        Where few verdicts speak of a score it is nearer to a half, and the two are far apart.

        Example:
            >>> judged = judge_scores([0.9] * 80 + [0.2] * 20, [True] * 76 + [False] * 24)
            >>> judged.probability([0.9, 0.2]).round(2)
            array([0.94, 0.05])
        """
        low, high = self.probabilities(scores)
        return np.asarray(high / (1 - low + high))

    def probabilities(self, scores: npt.ArrayLike) -> tuple[Floats, Floats]:
        """The two of Venn–Abers, one of which is calibrated: far apart where there are few verdicts."""
        asked, places = np.unique(np.asarray(scores, dtype=np.float64).ravel(), return_inverse=True)
        if not np.isfinite(asked).all():
            raise InputError("scores must be finite.")
        found = np.array([[self._fitted(score, as_right) for as_right in (0.0, 1.0)] for score in asked])
        found = found.reshape(-1, 2)[places]
        return found[:, 0], found[:, 1]

    def accepts(self, scores: npt.ArrayLike) -> Flags:
        """Which answers need no person; none without a threshold."""
        given = np.asarray(scores, dtype=np.float64).ravel()
        if self.threshold is None:
            return np.zeros(len(given), dtype=bool)
        return is_accepted(-given, -self.threshold)

    @cached_property
    def more_verdicts(self) -> int | None:
        """About how many more it takes until some answers can be accepted; None if none would be enough.

        At the rates that were found: the number of verdicts from which the bound of some threshold is low
        enough.
        """
        if self.threshold is not None:
            return 0
        values, truth = np.array(self.scores), np.array(self.right)
        needed = []
        for level in np.unique(values):
            accepted = values >= level
            wrong, share = float((accepted & ~truth).sum()), accepted.mean()
            rate = (wrong + 0.5) / (accepted.sum() + 1)  # no mistake seen is not no mistake made
            if rate < self.risk.limit:
                needed.append(_rows_until(self.risk, rate, share))
        fewest = min((rows for rows in needed if rows is not None), default=None)
        return None if fewest is None else max(fewest - len(values), 1)

    def __str__(self) -> str:
        values, truth = np.array(self.scores), np.array(self.right)
        said = [
            f"{len(values)} verdicts, {truth.mean():.1%} right, {len(np.unique(values))} different scores"
        ]
        if self.threshold is not None:
            accepted = self.accepts(values)
            said.append(
                f"accept from a score of {max(self.threshold, values.min()):.4g}: {accepted.mean():.1%} of "
                f"the answers, of which {(~truth[accepted]).mean():.1%} were wrong; {self.risk.promise}"
            )
        elif self.more_verdicts is None:
            said.append(
                f"no threshold: even the highest scores are wrong more often than {self.risk.limit:.3g}, and "
                "more verdicts would not help"
            )
        else:
            said.append(
                f"no threshold yet: at most {self.risk.limit:.3g} wrong, with confidence "
                f"{self.risk.confidence:.3g}, takes about {self.more_verdicts} more verdicts"
            )
        return "; ".join(said)

    __repr__ = __str__

    @cached_property
    def _sorted(self) -> tuple[Floats, Floats, Floats]:
        """Different scores in order, how many verdicts each has, and how many of these are right."""
        values, places = np.unique(np.array(self.scores), return_inverse=True)
        counts = np.bincount(places).astype(np.float64)
        right = np.bincount(places, np.array(self.right, dtype=np.float64)).astype(np.float64)
        return values, counts, right

    def _fitted(self, score: float, as_right: float) -> float:
        """Isotonic regression with one more row, at its score."""
        from scipy.optimize import isotonic_regression

        values, counts, sums = self._sorted
        place = int(np.searchsorted(values, score))
        if place == len(values) or values[place] != score:
            counts, sums = np.insert(counts, place, 0.0), np.insert(sums, place, 0.0)
        counts, sums = counts.copy(), sums.copy()
        counts[place] += 1
        sums[place] += as_right
        return float(isotonic_regression(sums / counts, weights=counts).x[place])


def judge_scores(
    scores: npt.ArrayLike, right: npt.ArrayLike, *, risk: float = 0.05, confidence: float = 0.95
) -> JudgedScores:
    """From a judge's scores and the verdicts of people to a probability and a threshold with a promise.

    Args:
        scores: One per answer, higher is more certain; any numbers, with any ties.
        right: Whether a person found the answer right.
        risk: Of the answers that are accepted, at most so many are wrong,
        confidence: with this probability over the draw of the judged answers.

    Returns:
        `probability(scores)`, `accepts(scores)`; printed, it says what is promised, or how many more verdicts
        that would take.

    Raises:
        InputError: If scores are not finite, or there are none.
        ShapeError: If there are not as many verdicts as scores.

    Example:
        >>> judged = judge_scores([0.95] * 90 + [0.5] * 10, [True] * 90 + [False] * 10)
        >>> judged.more_verdicts > 0
        True
    """
    verdicts = np.asarray(right).ravel().tolist()
    unclear = [each for each in verdicts if isinstance(each, str) or each not in (0, 1)]
    if unclear:
        raise InputError(f"verdicts are true or false, or 1 and 0, but one is {str(unclear[0])[:40]!r}.")
    values, truth = np.asarray(scores, dtype=np.float64).ravel(), np.array(verdicts, dtype=bool)
    if len(values) != len(truth):
        raise ShapeError(f"there are {len(values)} scores, but {len(truth)} verdicts.")
    if not len(values) or not np.isfinite(values).all():
        raise InputError("a judge needs scores, all of them finite.")
    rule = Risk(risk, confidence)
    found = _thresholds(values, truth, rule)
    return JudgedScores(tuple(values.tolist()), tuple(truth.tolist()), rule, min(found, default=None))


def _thresholds(values: Floats, truth: Flags, rule: Risk) -> list[float]:
    """Those that keep the risk: of ranks, as for a gate, and scores that many answers have.

    Each kind has half of what may go wrong. The rows below a rank do not end within ties; but a score that
    a twentieth of all answers have is one of at most twenty, whichever rows were drawn, and so a candidate.
    It is looked for among those that a tenth of the verdicts have.
    """
    half = _halved(rule)
    different, counts = np.unique(values, return_counts=True)
    found = []
    for score in different[counts >= len(values) / 10]:
        accepted = is_accepted(-values, -score)
        bound = half.bounds(np.array([(accepted & ~truth).sum()]), np.array([accepted.sum()]))[0]
        found += [float(score)] if bound <= rule.limit else []
    with suppress(GateError):
        found.append(-half.threshold(-values, ~truth))
    return found


def _halved(rule: Risk) -> Risk:
    return Risk(rule.limit, (1 + rule.confidence) / 2)


def _rows_until(rule: Risk, rate: float, share: float) -> int | None:
    """How many verdicts, if so many answers are above the threshold and such a share of them is wrong."""
    low, high = 1, _MOST_VERDICTS
    if not _is_enough(rule, rate, share, high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_enough(rule, rate, share, middle) else (middle + 1, high)
    return low


def _is_enough(rule: Risk, rate: float, share: float, rows: int) -> bool:
    accepted = np.array([int(share * rows)])
    return bool(_halved(rule).bounds(np.ceil(rate * accepted).astype(np.int64), accepted)[0] <= rule.limit)
