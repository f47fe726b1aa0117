"""Scores by name; their means over seeds; who is beaten in paired tests, over seeds or rows."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from totalcal.errors import InputError, UnknownNameError


class Score(NamedTuple):
    """One score; values are kept as fractions, `percent` says how it is printed."""

    title: str
    lower_is_better: bool
    percent: bool


SCORES = {
    "error": Score("Error", lower_is_better=True, percent=True),
    "nll": Score("NLL", lower_is_better=True, percent=False),
    "brier": Score("Brier", lower_is_better=True, percent=False),
    "ece": Score("ECE (15 bins)", lower_is_better=True, percent=True),
    "ece_100": Score("ECE (100 bins)", lower_is_better=True, percent=True),
    "ece_debiased": Score("L2 calibration error, debiased", lower_is_better=True, percent=True),
    "ece_smooth": Score("Smooth ECE", lower_is_better=True, percent=True),
    "ece_classwise": Score("Class-wise ECE", lower_is_better=True, percent=True),
    "auroc": Score("OOD AUROC", lower_is_better=False, percent=True),
    "auroc_mean": Score("OOD AUROC, mean of the panel", lower_is_better=False, percent=True),
    "auroc_worst": Score("OOD AUROC, worst of the panel", lower_is_better=False, percent=True),
    "aupr_out": Score("OOD AUPR, OOD positive", lower_is_better=False, percent=True),
    "aupr_in": Score("OOD AUPR, in-distribution positive", lower_is_better=False, percent=True),
    "fpr95": Score("OOD FPR at 95 % TPR", lower_is_better=True, percent=True),
    "aurc": Score("AURC", lower_is_better=True, percent=True),
    "excess_aurc": Score("Excess AURC", lower_is_better=True, percent=True),
    "augrc": Score("AUGRC", lower_is_better=True, percent=True),
    "joint_nll": Score("Joint NLL", lower_is_better=True, percent=False),
    "kl": Score("KL to the truth", lower_is_better=True, percent=False),
    "risk_correlation": Score("Rank correlation with the Bayes risk", lower_is_better=False, percent=False),
}
"""The scores by their keys; `auroc/mnist` in a record is the score `auroc` on the OOD set `mnist`."""

ASPECTS = {"model fit": "nll", "class overlap": "ece", "domain mismatch": "auroc"}
"""The three aspects of total calibration, section 2, and the score that stands for each."""

Record = Mapping[str, Any]
"""One run: what ran and how it scored, by the keys that docs/grid.md lists."""


def is_score(key: str) -> bool:
    """Whether a key is a score: one of SCORES, or one of them on a named OOD set, `auroc/mnist`."""
    return key.partition("/")[0] in SCORES


def describe(key: str) -> Score:
    """The score behind a key.

    >>> describe("auroc/kmnist").title
    'OOD AUROC, kmnist'
    """
    name, _, panel = key.partition("/")
    if name not in SCORES:
        raise UnknownNameError("score", key, SCORES)
    score = SCORES[name]
    return score._replace(title=f"{score.title}, {panel}") if panel else score


def better(key: str, left: float, right: float) -> bool:
    """Whether `left` is the better value of the two.

    >>> better("auroc", 0.9, 0.8), better("nll", 0.9, 0.8)
    (True, False)
    """
    return left < right if describe(key).lower_is_better else left > right


class Summary(NamedTuple):
    """What the seeds of one row say; the standard deviation of one seed is NaN, not 0."""

    mean: float
    std: float
    n: int


def summarise(values: Iterable[float]) -> Summary:
    """Mean, sample standard deviation (n − 1) and n.

    >>> summarise([1.0, 2.0, 3.0])
    Summary(mean=2.0, std=1.0, n=3)
    """
    array = np.fromiter(values, dtype=np.float64)
    if not array.size:
        raise InputError("there is nothing to summarise: no seed has this score.")
    with np.errstate(invalid="ignore"):  # the spread around an infinite mean is NaN
        std = float(array.std(ddof=1)) if array.size > 1 else np.nan
    return Summary(float(array.mean()), std, array.size)


def by_seed(records: Iterable[Record], score: str) -> dict[str, dict[int, float]]:
    """Model → seed → value of one score, of the records of one task and preset: for a paired comparison."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for record in records:
        if score in record:
            found[record["model"]][record["seed"]] = float(record[score])
    return dict(found)


def show(key: str, summary: Summary, digits: int | None = None) -> str:
    """A summary as people print it: percent with one digit, or two digits, unless given.

    >>> show("error", Summary(0.0792, 0.0011, 10)), show("nll", Summary(0.2901, 0.0034, 10))
    ('7.9 ± 0.1', '0.29 ± 0.00')
    >>> show("nll", Summary(0.2901, np.nan, 1))
    '0.29'
    """
    scale, usual = (100, 1) if describe(key).percent else (1, 2)
    digits = usual if digits is None else digits
    spread = "" if np.isnan(summary.std) else f" ± {scale * summary.std:.{digits}f}"
    return f"{scale * summary.mean:.{digits}f}{spread}"


Pair = tuple[str, str]
ROUNDING = 1e-9  # relative; 0.3 must count as within 3 · 0.1


class Difference(NamedTuple):
    """First − second over shared seeds: the mean, its interval, the p-value; NaN where seeds are too few."""

    mean: float
    low: float
    high: float
    n: int
    p_value: float

    def can_tell(self, level: float = 0.95) -> bool:
        """Whether so many seeds could show any difference at all at this level."""
        if math.isnan(self.p_value):
            return False
        return self.low < self.high or self.mean == 0 or self.p_value <= 1 - level

    def is_real(self, level: float = 0.95) -> bool:
        """Whether a difference of 0 is ruled out at this level."""
        return self.can_tell(level) and self.p_value <= 1 - level

    def in_words(self, level: float = 0.95) -> str:
        if not self.can_tell(level):
            return "too few seeds to tell"
        if not self.is_real(level):
            return "no difference found"
        return "higher" if self.mean > 0 else "lower"


def paired_difference(
    first: Mapping[int, float], second: Mapping[int, float], level: float = 0.95
) -> Difference:
    """First − second over the seeds both have, by Student's t for pairs: the interval and the p-value.

    A bootstrap of so few values calls equal models different in 52 % of the cases at 2 seeds and 12 % at 5.
    The t test holds its level where differences are normal, and stays below it where their tails are heavy.
    Differences without any spread (a score of few images, say) leave it nothing to go by: then a permutation
    of signs decides, whose p-value is 2 / 2ⁿ at least.

    >>> paired_difference({0: 0.30, 1: 0.31, 2: 0.29}, {0: 0.20, 1: 0.22, 2: 0.18}).in_words()
    'higher'
    """
    from scipy.special import stdtr, stdtrit

    shared = sorted(first.keys() & second.keys())
    differences = np.array([first[seed] - second[seed] for seed in shared])
    n = len(differences)
    if n < 2 or not np.isfinite(differences).all():
        return Difference(float(differences.mean()) if n else math.nan, math.nan, math.nan, n, math.nan)
    mean, error = float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(n)
    if error <= ROUNDING * abs(mean):
        return Difference(mean, mean, mean, n, min(1.0, 2.0 ** (1 - n)) if mean else 1.0)
    reach = error * float(stdtrit(n - 1, (1 + level) / 2))
    return Difference(mean, mean - reach, mean + reach, n, 2 * float(stdtr(n - 1, -abs(mean) / error)))


def bootstrap_difference(
    score: Callable[..., float],
    sets: Sequence[tuple[Sequence[Any], Sequence[Any]]],
    *,
    repetitions: int = 400,
    level: float = 0.95,
) -> Difference:
    """Second − first model by a score, with its interval over rows (bootstrap): for models of one seed.

    Args:
        score: From arrays over rows, such as probabilities and labels, to a number.
        sets: For each set of rows the first model's arrays and the second's. Both see the same rows in each
            repetition, so that the comparison is paired.
        repetitions: How many draws of rows.
        level: Of the interval.

    Returns:
        The difference with its interval, and no p-value.

    Example:
        >>> rows = np.arange(10.0)
        >>> found = bootstrap_difference(np.mean, [([rows], [rows + 1])])
        >>> [round(value, 6) for value in (found.mean, found.low, found.high)]
        [1.0, 1.0, 1.0]
    """
    draw = np.random.default_rng(0)

    def difference(rows: Sequence[Any]) -> float:
        sides = zip(*sets, strict=True)
        one, two = (
            score(*(array[row] for arrays, row in zip(side, rows, strict=True) for array in arrays))
            for side in sides
        )
        return float(two - one)

    sizes = [len(first[0]) for first, _ in sets]
    drawn = [difference([draw.integers(size, size=size) for size in sizes]) for _ in range(repetitions)]
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Difference(difference([slice(None)] * len(sets)), float(low), float(high), sizes[0], math.nan)


def unbeaten(
    score: str,
    values: Mapping[str, Mapping[int, float]],
    level: float = 0.95,
    among: Collection[str] | None = None,
) -> set[str]:
    """The models (model → seed → value) that no other beats, at `level` for the table as a whole.

    With `among` they are those of these that no other of these beats, by the same tests of all pairs: who is
    unbeaten among all is unbeaten among some.

    Every pair is tested once and Holm's correction counts them, so that a table of equal models calls any
    of them beaten with a chance of 1 − level at most. A score that is not finite on some seed, as the NLL of
    a probability of 0, needs no test: any that is finite on all of its seeds beats it.
    """
    sound = {model for model, scores in values.items() if all(map(math.isfinite, scores.values()))}
    values = {model: scores for model, scores in values.items() if model in sound or not sound}
    pairs = {
        (one, other): paired_difference(values[one], values[other], level)
        for one, other in combinations(values, 2)
    }
    asked = set(values if among is None else among)
    real = _real_by_holm(pairs, level).items()
    won = [pair if better(score, found.mean, 0.0) else pair[::-1] for pair, found in real]
    return (values.keys() & asked) - {loser for winner, loser in won if winner in asked}


def _real_by_holm(pairs: Mapping[Pair, Difference], level: float) -> dict[Pair, Difference]:
    """Those that stand when all are tested: p₍ᵢ₎ ≤ (1 − level) / (m − i), up to the first that fails."""
    ordered = sorted(
        ((pair, difference) for pair, difference in pairs.items() if not math.isnan(difference.p_value)),
        key=lambda entry: entry[1].p_value,
    )
    real: dict[Pair, Difference] = {}
    for place, (pair, difference) in enumerate(ordered):
        if not difference.is_real(1 - (1 - level) / (len(ordered) - place)):
            break
        real[pair] = difference
    return real
