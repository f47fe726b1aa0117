"""How far a prediction is from the truth: misfit, class overlap and distance, against what is exact."""

import numpy as np
from torch import Tensor

from totalcal.data.gaussians import Floats


def kl_to_truth(truth: Floats, predicted: Floats) -> float:
    """E_x KL(Cat(f_true(x)) ‖ Cat(h(x))), the misfit of section 2, exact at each x.

    >>> kl_to_truth(np.array([[0.5, 0.5]]), np.array([[0.5, 0.5]]))
    0.0
    """
    from scipy.special import rel_entr

    return float(rel_entr(truth, predicted).sum(axis=1).mean())


def rank_correlation(left: Floats, right: Floats) -> float:
    """Spearman's ρ; NaN where one of the two is constant, because then nothing is ranked."""
    from scipy.stats import spearmanr

    if np.ptp(left) == 0 or np.ptp(right) == 0:
        return float("nan")
    return float(spearmanr(left, right).statistic)


def risk_ceiling(truth: Floats) -> float:
    """The rank correlation with the Bayes risk that f_true itself reaches by its own data term Σ_k f (1 − f).

    Below 1 for more than two classes: the sum is no monotone function of 1 − max f.

    >>> risk_ceiling(np.array([[0.5, 0.25, 0.25], [0.45, 0.45, 0.1], [1.0, 0.0, 0.0]]))
    0.5
    """
    return rank_correlation((truth * (1 - truth)).sum(axis=1), 1 - truth.max(axis=1))


def distance_to(data: Tensor, inputs: Tensor) -> Floats:
    """min over the training points of ‖x − x_n‖, section 4."""
    from sklearn.neighbors import NearestNeighbors

    distance, _ = NearestNeighbors(n_neighbors=1).fit(data.numpy()).kneighbors(inputs.numpy())
    return np.asarray(distance[:, 0], dtype=np.float64)


def by_distance(distance: Floats, values: Floats, slices: int) -> tuple[tuple[float, float], ...]:
    """Mean distance and mean value in slices of equally many points, the nearest first.

    >>> by_distance(np.array([3.0, 1.0, 2.0, 4.0]), np.array([0.3, 0.1, 0.2, 0.4]), slices=2)
    ((1.5, 0.15...), (3.5, 0.35))
    """
    parts = np.array_split(np.argsort(distance, kind="stable"), slices)
    return tuple((float(distance[part].mean()), float(values[part].mean())) for part in parts)
