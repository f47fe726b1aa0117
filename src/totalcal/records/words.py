"""The result in one line: which models are not beaten on any of the three aspects of total calibration."""

from collections.abc import Callable, Mapping

from totalcal.errors import InputError
from totalcal.records.aggregate import Summary
from totalcal.records.compare import bold
from totalcal.records.scoreboard import ASPECTS

Scores = Mapping[str, Mapping[str, Summary]]  # model → score → summary
Rule = Callable[[str, Mapping[str, Summary]], set[str]]  # (score, model → summary) → those not beaten


def has_learned(scores: Mapping[str, Summary]) -> bool:
    """Whether the error lies below that of always answering the most frequent class."""
    if "majority_error" not in scores:
        raise InputError(
            "a verdict needs `majority_error` beside `error`: 1 − the share of the largest class."
        )
    return scores["error"].mean < scores["majority_error"].mean


def winners(models: Scores, aspects: Mapping[str, str] = ASPECTS, rule: Rule = bold) -> dict[str, set[str]]:
    """For each aspect the models not beaten on its score by `rule`, among those that learned anything."""
    able = {model: scores for model, scores in models.items() if has_learned(scores)}
    return {
        aspect: rule(key, {model: scores[key] for model, scores in able.items() if key in scores})
        for aspect, key in aspects.items()
    }


def in_words(models: Scores, aspects: Mapping[str, str] = ASPECTS, rule: Rule = bold) -> str:
    """One line on total calibration; a model that has learned nothing is never called calibrated."""
    found = winners(models, aspects, rule)
    all_round = set.intersection(*found.values())
    if all_round:
        verb = "is" if len(all_round) == 1 else "are"
        line = f"{_names(all_round)} {verb} not beaten on any of {_listed(aspects)}."
    else:
        line = f"No model is unbeaten on all of {_listed(aspects)}: {_by_aspect(found)}."
    return " ".join([line, *_idle(models)])


def _idle(models: Scores) -> list[str]:
    return [
        f"{model} has learned nothing (error {scores['error'].mean:.1%}, the majority class's "
        f"{scores['majority_error'].mean:.1%}) and is not called calibrated."
        for model, scores in models.items()
        if not has_learned(scores)
    ]


def _by_aspect(found: Mapping[str, set[str]]) -> str:
    return "; ".join(f"{aspect}: {_names(models) or 'none'}" for aspect, models in found.items())


def _listed(aspects: Mapping[str, str]) -> str:
    return ", ".join(f"{aspect} ({key})" for aspect, key in aspects.items())


def _names(models: set[str]) -> str:
    *most, last = sorted(models) or [""]
    return f"{', '.join(most)} and {last}" if most else last
