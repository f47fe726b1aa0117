"""The rule for bold entries by which the paper's tables and ours beside them are marked, and a verdict by it.

It rewards noise, so what the product compares is compared in pairs: `totalcal.report.unbeaten`.
"""

import math
from collections.abc import Mapping

from totalcal.errors import InputError
from totalcal.report import ASPECTS, Summary, describe
from totalcal_lab.records.labels import listed

Scores = Mapping[str, Mapping[str, Summary]]  # model → score → summary
_MOST_NAMES = 12
_ROUNDING = 1e-9  # relative; 0.3 must count as within 3 · 0.1


def bold(score: str, summaries: Mapping[str, Summary]) -> set[str]:
    """The models within three standard deviations of the best: |mean − best mean| ≤ 3 · std of the best.

    The rule behind all 80 entries of the paper's Table 2. The spread of a best of one seed (say, an ensemble)
    is not known: then that of each other model counts, and who is beaten without that run stays beaten. A
    model whose mean is not finite is never bold. Of several best means the widest standard deviation counts.

    >>> entries = {"a": Summary(0.10, 0.01, 3), "b": Summary(0.13, 0.0, 3), "c": Summary(0.14, 0.1, 3)}
    >>> sorted(bold("error", entries))
    ['a', 'b']
    """
    finite = {model: summary for model, summary in summaries.items() if math.isfinite(summary.mean)}
    if not finite:
        return set()
    sign = 1 if describe(score).lower_is_better else -1
    best = min(finite.values(), key=lambda summary: (sign * summary.mean, -_spread(summary)))
    near = {
        model
        for model, summary in finite.items()
        if abs(summary.mean - best.mean)
        <= 3 * _spread(best if best.n > 1 else summary) + _ROUNDING * abs(best.mean)
    }
    if best.n > 1:
        return near
    of_several_seeds = {model: summary for model, summary in finite.items() if summary.n > 1}
    return near - (of_several_seeds.keys() - bold(score, of_several_seeds))


def has_learned(scores: Mapping[str, Summary]) -> bool:
    """Whether the error lies below that of always answering the most frequent class."""
    if "majority_error" not in scores:
        raise InputError(
            "a verdict needs `majority_error` beside `error`: 1 − the share of the largest class."
        )
    return scores["error"].mean < scores["majority_error"].mean


def winners(models: Scores, aspects: Mapping[str, str] = ASPECTS) -> dict[str, set[str]]:
    """For each aspect the models that are bold on its score, among those that learned anything."""
    able = {model: scores for model, scores in models.items() if has_learned(scores)}
    return {
        aspect: bold(key, {model: scores[key] for model, scores in able.items() if key in scores})
        for aspect, key in aspects.items()
    }


def in_words(models: Scores, aspects: Mapping[str, str] = ASPECTS) -> str:
    """One line on total calibration; a model that has learned nothing is never called calibrated."""
    found = winners(models, aspects)
    named = ", ".join(f"{aspect} ({key})" for aspect, key in aspects.items())
    all_round = set.intersection(*found.values())
    if all_round and len(models) == 1:
        line = f"{_names(all_round)} is the only model here, so there is nothing to compare it with."
    elif all_round:
        verb = "is" if len(all_round) == 1 else "are"
        line = f"{_names(all_round)} {verb} not beaten on any of {named}."
    else:
        by_aspect = "; ".join(f"{aspect}: {_names(models) or 'none'}" for aspect, models in found.items())
        line = f"No model is unbeaten on all of {named}: {by_aspect}."
    return " ".join([line, *_idle(models)])


def _idle(models: Scores) -> list[str]:
    idle = [
        f"{model} has learned nothing (error {scores['error'].mean:.1%}, the majority class's "
        f"{scores['majority_error'].mean:.1%}) and is not called calibrated."
        for model, scores in models.items()
        if not has_learned(scores)
    ]
    more = len(idle) - _MOST_NAMES
    return [*idle[:_MOST_NAMES], f"The same holds for {more} more."] if more > 0 else idle


def _names(models: set[str]) -> str:
    if len(models) > _MOST_NAMES:
        return listed(sorted(models), _MOST_NAMES)
    *most, last = sorted(models) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _spread(summary: Summary) -> float:
    return 0.0 if math.isnan(summary.std) else summary.std
