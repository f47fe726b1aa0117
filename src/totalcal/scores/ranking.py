"""What an uncertainty is worth as a ranking: for telling OOD inputs apart, and for abstaining.

Domain mismatch: how well it tells out-of-distribution inputs from in-distribution ones. OOD is the positive
class everywhere, and a higher score means more uncertain. The curves are scikit-learn's. The scores go in as
ranks, which changes none of these areas and makes every range fit: infinities, values that differ in the last
bit only, values above 1.

Selective prediction: what a predictor's confidence is worth when it may abstain. Losses are any numbers ≥ 0,
usually 1[ŷ ≠ y]. Examples of equal confidence cannot be told apart, so areas average over all orders of a tie
(each loss is replaced by its tie's mean), and a threshold takes or leaves a tie as a whole.
"""

from typing import NamedTuple

import numpy as np

from totalcal.errors import InputError, ShapeError
from totalcal.scores.arrays import Floats, Integers, Values, check_vector


class Ranking(NamedTuple):
    """The four areas and rates of one pair of sets; OOD is the positive class."""

    auroc: float
    aupr_out: float
    aupr_in: float
    fpr95: float


def rank(in_distribution: Values, ood: Values) -> Ranking:
    """All four at once.

    >>> rank([0.1, 0.2], [0.2, 0.9])
    Ranking(auroc=0.875, aupr_out=0.83..., aupr_in=0.83..., fpr95=0.5)
    """
    return Ranking(
        auroc(in_distribution, ood),
        aupr_out(in_distribution, ood),
        aupr_in(in_distribution, ood),
        fpr_at_tpr(in_distribution, ood),
    )


def auroc(in_distribution: Values, ood: Values) -> float:
    """P(OOD score > in-distribution score) + ½ P(equal): 0.5 when all scores tie.

    >>> auroc([1.0, 1.0], [1.0, 1.0])
    0.5
    """
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(*_ranked(in_distribution, ood)))


def aupr_out(in_distribution: Values, ood: Values) -> float:
    """Average precision of finding the OOD inputs by high scores."""
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(*_ranked(in_distribution, ood)))


def aupr_in(in_distribution: Values, ood: Values) -> float:
    """Average precision of finding the in-distribution inputs by low scores."""
    from sklearn.metrics import average_precision_score

    positive, ranks = _ranked(in_distribution, ood)
    return float(average_precision_score(1 - positive, -ranks))


def fpr_at_tpr(in_distribution: Values, ood: Values, tpr: float = 0.95) -> float:
    """The smallest share of in-distribution inputs rejected where a share `tpr` of the others is."""
    from sklearn.metrics import roc_curve

    if not 0 < tpr <= 1:
        raise InputError(f"tpr must be in (0, 1], but got {tpr}.")
    false_positive, true_positive, _ = roc_curve(*_ranked(in_distribution, ood), drop_intermediate=False)
    return float(false_positive[true_positive >= tpr].min())


def _ranked(in_distribution: Values, ood: Values) -> tuple[Integers, Integers]:
    """1 for OOD, and the dense rank of each score."""
    known = check_vector(in_distribution, "the in-distribution scores")
    ood = check_vector(ood, "the OOD scores")
    positive = np.repeat([0, 1], [len(known), len(ood)])
    _, ranks = np.unique(np.concatenate([known, ood]), return_inverse=True)
    return positive, ranks.astype(np.int64)


class OperatingPoint(NamedTuple):
    """Answer where confidence ≥ threshold: the share answered, and the mean loss among the answers."""

    threshold: float
    coverage: float
    risk: float


def aurc(confidence: Values, losses: Values) -> float:
    """(1/n) Σ_k risk of the k most confident: the area under the risk-coverage curve.

    >>> aurc([0.9, 0.8, 0.7], [0, 0, 1])
    0.111...
    """
    ordered = _tie_means(*_checked(confidence, losses))
    return float(np.mean(np.cumsum(ordered) / np.arange(1, len(ordered) + 1)))


def excess_aurc(confidence: Values, losses: Values) -> float:
    """AURC − AURC of the best order that these losses allow: what is lost by ranking alone.

    >>> excess_aurc([0.9, 0.8, 0.7], [0, 0, 1])
    0.0
    """
    _, values = _checked(confidence, losses)
    return aurc(confidence, values) - aurc(-values, values)


def augrc(confidence: Values, losses: Values) -> float:
    """∫₀¹ (1/n) Σ_{answered} loss d(coverage), by trapezoids (Traub et al., 2024).

    For 0/1 losses it is (1 − AUROC_f) · acc · err + err²/2, AUROC_f of telling failures by low confidence.

    >>> round(augrc([0.9, 0.8, 0.7], [0, 0, 1]), 6)
    0.055556
    """
    ordered = _tie_means(*_checked(confidence, losses))
    return float((np.cumsum(ordered) - ordered / 2).sum() / len(ordered) ** 2)


def operating_points(confidence: Values, losses: Values) -> list[OperatingPoint]:
    """The risk-coverage curve: a point for each confidence that occurs, the highest first."""
    sure, values = _checked(confidence, losses)
    thresholds, place = _falling(sure)
    answered = np.cumsum(np.bincount(place))
    lost = np.cumsum(np.bincount(place, values))
    return [
        OperatingPoint(float(threshold), float(number / len(sure)), float(loss / number))
        for threshold, number, loss in zip(thresholds, answered, lost, strict=True)
    ]


def _tie_means(confidence: Floats, losses: Floats) -> Floats:
    """The losses from the most confident down, each replaced by the mean of its tie."""
    _, place = _falling(confidence)
    counts = np.bincount(place)
    return np.repeat(np.bincount(place, losses) / counts, counts)


def _falling(confidence: Floats) -> tuple[Floats, Integers]:
    """The distinct confidences from the highest down, and which of them each example has."""
    values, place = np.unique(-confidence, return_inverse=True)
    return -values, place.astype(np.int64)


def _checked(confidence: Values, losses: Values) -> tuple[Floats, Floats]:
    sure, values = check_vector(confidence, "the confidences"), check_vector(losses, "the losses")
    if len(sure) != len(values):
        raise ShapeError(f"there are {len(sure)} confidences, but {len(values)} losses.")
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError("losses must be finite and at least 0.")
    return sure, values
