"""The joint score (Definition 1): labels of small sets of near inputs, predicted together.

Marginal scores cannot tell what is reducible from what is not: two predictors with the same p(y | x) may
disagree on whether two labels of the same region go together. Dyadic sampling (Osband et al., 2022) makes
sets that show it: every member lies near one of two anchors.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from totalcal.scores import Floats

LogJoint = Callable[[Tensor, Tensor], Tensor | float]
Sets = NDArray[np.int64]


def dyadic_sets(inputs: Tensor, sets: int = 1000, size: int = 10, neighbours: int = 5, seed: int = 0) -> Sets:
    """Rows of `inputs` for each set, sets × size: near one of two anchors drawn for that set.

    A member is one of the `neighbours` rows nearest to its anchor, the anchor itself among them.
    """
    from sklearn.neighbors import NearestNeighbors

    rows = inputs.double().flatten(1).numpy()
    random = np.random.default_rng(seed)
    anchors = random.integers(len(rows), size=(sets, 2))
    nearest = NearestNeighbors(n_neighbors=neighbours).fit(rows)
    near = nearest.kneighbors(rows[anchors.ravel()], return_distance=False).reshape(sets, 2, neighbours)
    which = random.integers(2, size=(sets, size))
    member = random.integers(neighbours, size=(sets, size))
    return np.asarray(near[np.arange(sets)[:, None], which, member], dtype=np.int64)


def joint_nll(log_joint: LogJoint, inputs: Tensor, labels: Tensor, sets: Sets) -> float:
    """−mean over the sets of log p(Y | X), by a predictor's own `log_joint(inputs, labels)` of one set."""
    return -float(np.mean([float(log_joint(inputs[rows], labels[rows])) for rows in sets]))


def joint_nll_of_draws(probabilities: Floats, labels: NDArray[np.int64], sets: Sets) -> float:
    """−mean over the sets of log (1/S) Σ_s Π_i p_s(y_i | x_i), for draws × n × K probabilities.

    A draw must be one draw of the weights for all rows (an ensemble's member is), else it is no joint.

    >>> draws = np.array([[[1.0, 0], [1, 0]], [[0, 1], [0, 1]]])
    >>> joint_nll_of_draws(draws, np.array([0, 0]), np.array([[0, 1]]))  # one of two is right
    0.693...
    """
    with np.errstate(divide="ignore"):  # log 0 = −∞ is what a sure and wrong draw deserves
        log_likelihood = np.log(probabilities[:, np.arange(len(labels)), labels])  # [draws, examples]
    together = log_likelihood[:, sets].sum(axis=-1)  # [draws, sets]
    return float(-(np.logaddexp.reduce(together, axis=0) - np.log(len(probabilities))).mean())
