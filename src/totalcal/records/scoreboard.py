"""What the scores of a record mean: title, unit, direction, and which of them stand for the three aspects."""

from typing import NamedTuple

from totalcal.errors import UnknownNameError


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
    "aupr_in": Score("OOD AUPR, in-domain positive", lower_is_better=False, percent=True),
    "fpr95": Score("OOD FPR at 95 % TPR", lower_is_better=True, percent=True),
    "aurc": Score("AURC", lower_is_better=True, percent=True),
    "excess_aurc": Score("Excess AURC", lower_is_better=True, percent=True),
    "augrc": Score("AUGRC", lower_is_better=True, percent=True),
    "joint_nll": Score("Joint NLL", lower_is_better=True, percent=False),
    "kl": Score("KL to the truth", lower_is_better=True, percent=False),
    "risk_correlation": Score("Rank correlation with the Bayes risk", lower_is_better=False, percent=False),
}

ASPECTS = {"model fit": "nll", "class overlap": "ece", "domain mismatch": "auroc"}
"""The three aspects of total calibration, section 2, and the score that stands for each."""


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
