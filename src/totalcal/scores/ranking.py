"""Domain mismatch: how well one uncertainty tells out-of-domain inputs from in-domain ones.

Out-of-domain is the positive class everywhere, and a higher score means more uncertain. The curves are
scikit-learn's. The scores go in as ranks, which changes none of these areas and makes every range fit:
infinities, values that differ in the last bit only, values above 1.
"""

from typing import NamedTuple

import numpy as np

from totalcal.errors import InputError
from totalcal.scores.arrays import Integers, Values, check_vector


class Ranking(NamedTuple):
    """The four areas and rates of one pair of sets; out-of-domain is the positive class."""

    auroc: float
    aupr_out: float
    aupr_in: float
    fpr95: float


def rank(inside: Values, outside: Values) -> Ranking:
    """All four at once.

    >>> rank([0.1, 0.2], [0.2, 0.9])
    Ranking(auroc=0.875, aupr_out=0.83..., aupr_in=0.83..., fpr95=0.5)
    """
    return Ranking(
        auroc(inside, outside),
        aupr_out(inside, outside),
        aupr_in(inside, outside),
        fpr_at_tpr(inside, outside),
    )


def auroc(inside: Values, outside: Values) -> float:
    """P(score outside > score inside) + ½ P(equal): 0.5 when all scores tie.

    >>> auroc([1.0, 1.0], [1.0, 1.0])
    0.5
    """
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(*_ranked(inside, outside)))


def aupr_out(inside: Values, outside: Values) -> float:
    """Average precision of finding the out-of-domain inputs by high scores."""
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(*_ranked(inside, outside)))


def aupr_in(inside: Values, outside: Values) -> float:
    """Average precision of finding the in-domain inputs by low scores."""
    from sklearn.metrics import average_precision_score

    positive, ranks = _ranked(inside, outside)
    return float(average_precision_score(1 - positive, -ranks))


def fpr_at_tpr(inside: Values, outside: Values, tpr: float = 0.95) -> float:
    """The smallest share of in-domain inputs rejected where a share `tpr` of the others is."""
    from sklearn.metrics import roc_curve

    if not 0 < tpr <= 1:
        raise InputError(f"tpr must be in (0, 1], but {tpr} came.")
    false_positive, true_positive, _ = roc_curve(*_ranked(inside, outside), drop_intermediate=False)
    return float(false_positive[true_positive >= tpr].min())


def _ranked(inside: Values, outside: Values) -> tuple[Integers, Integers]:
    """1 for out-of-domain, and the dense rank of each score."""
    known, ood = (
        check_vector(inside, "the in-domain scores"),
        check_vector(outside, "the out-of-domain scores"),
    )
    positive = np.repeat([0, 1], [len(known), len(ood)])
    _, ranks = np.unique(np.concatenate([known, ood]), return_inverse=True)
    return positive, ranks.astype(np.int64)
