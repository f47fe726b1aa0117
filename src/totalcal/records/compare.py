"""Who is beaten: the paper's rule for bold, and a paired bootstrap as the stricter option."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from totalcal.errors import InputError
from totalcal.records.aggregate import Summary
from totalcal.records.scoreboard import better, describe

ROUNDING = 1e-9  # relative; 0.3 must count as within 3 · 0.1


class Difference(NamedTuple):
    """First − second over shared seeds, with a bootstrap interval."""

    mean: float
    low: float
    high: float
    n: int


def bold(score: str, summaries: Mapping[str, Summary]) -> set[str]:
    """The models within three standard deviations of the best: |mean − best mean| ≤ 3 · std of the best.

    The rule behind all 80 cells of the paper's Table 2. The spread of a best of one seed (say, an ensemble)
    is not known: then that of each other model counts. A model whose mean is not finite is never bold. Of
    several best means the widest standard deviation counts.

    >>> cells = {"a": Summary(0.10, 0.01, 3), "b": Summary(0.13, 0.0, 3), "c": Summary(0.14, 0.1, 3)}
    >>> sorted(bold("error", cells))
    ['a', 'b']
    """
    finite = {model: summary for model, summary in summaries.items() if math.isfinite(summary.mean)}
    if not finite:
        return set()
    sign = 1 if describe(score).lower_is_better else -1
    best = min(finite.values(), key=lambda summary: (sign * summary.mean, -_spread(summary)))
    return {
        model for model, summary in finite.items() if abs(summary.mean - best.mean) <= _reach(best, summary)
    }


def _reach(best: Summary, other: Summary) -> float:
    spread = _spread(best) if best.n > 1 else _spread(other)
    return 3 * spread + ROUNDING * abs(best.mean)


def paired_bootstrap(
    first: Mapping[int, float],
    second: Mapping[int, float],
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Difference:
    """The mean of first − second over shared seeds, with a percentile interval over resampled seeds."""
    from scipy.stats import bootstrap

    shared = sorted(first.keys() & second.keys())
    if len(shared) < 2:
        raise InputError(f"a paired comparison needs two seeds in common, not {len(shared)}.")
    differences = np.array([first[run] - second[run] for run in shared])
    interval = bootstrap(
        (differences,),
        np.mean,
        n_resamples=resamples,
        confidence_level=level,
        method="percentile",
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    return Difference(float(differences.mean()), float(interval.low), float(interval.high), len(shared))


def unbeaten(
    score: str, values: Mapping[str, Mapping[int, float]], level: float = 0.95, seed: int = 0
) -> set[str]:
    """The models (model → seed → value) that no other beats by a paired bootstrap at `level`."""
    return {
        model
        for model in values
        if not any(
            _beats(score, values[other], values[model], level, seed) for other in values if other != model
        )
    }


def _beats(score: str, one: Mapping[int, float], other: Mapping[int, float], level: float, seed: int) -> bool:
    """Whether the whole interval of one − other lies on the better side of 0."""
    difference = paired_bootstrap(one, other, level, seed=seed)
    return better(score, difference.low, 0.0) and better(score, difference.high, 0.0)


def _spread(summary: Summary) -> float:
    return 0.0 if math.isnan(summary.std) else summary.std
