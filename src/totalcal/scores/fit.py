"""Model fit: how near the predictive distribution is to the labels, one by one and jointly.

Marginal scores cannot tell what is reducible from what is not: two predictors with the same p(y | x) may
disagree on whether two labels of the same region go together. The joint score (Definition 1) sees it: labels
of a small set of near inputs, predicted together. Dyadic sampling (Osband et al., 2022) makes such sets:
every member lies near one of two anchors.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch

from totalcal.errors import InputError, ShapeError
from totalcal.scores.arrays import (
    Floats,
    Integers,
    Values,
    as_labels,
    check_count,
    check_predictions,
    check_probabilities,
    floats,
    plain,
)


def error(probabilities: Values, labels: Values) -> float:
    """The share of examples whose most probable class (the first, in a tie) is not the label.

    >>> error([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    0.5
    """
    array, truth = check_predictions(probabilities, labels)
    return float(np.mean(array.argmax(axis=1) != truth))


def nll(probabilities: Values, labels: Values, weights: Values | None = None) -> float:
    """−(1/n) Σ log p(y_i | x_i), section 2. Nothing is clipped: probability 0 for a label makes it infinite.

    With `weights`, one per example, it is the weighted mean.

    >>> round(nll([[0.5, 0.5], [0.5, 0.5]], [0, 1]), 4)
    0.6931
    """
    array, truth = check_predictions(probabilities, labels)
    each = negative_log_likelihoods(array, truth)
    return float(each.mean() if weights is None else np.average(each, weights=plain(weights)))


def brier(probabilities: Values, labels: Values) -> float:
    """(1/n) Σ_i Σ_k (p_ik − 1[y_i = k])²: summed over the classes, so from 0 to 2.

    >>> brier([[1.0, 0.0], [1.0, 0.0]], [0, 1])
    1.0
    """
    array, truth = check_predictions(probabilities, labels)
    return float(squared_distances(array, truth).mean())


def negative_log_likelihoods(probabilities: Floats, labels: Integers) -> Floats:
    """−log p(y | x), one for each example."""
    with np.errstate(divide="ignore"):  # −log 0 is ∞ and stays so
        return np.asarray(-np.log(probabilities[np.arange(len(labels)), labels]))


def squared_distances(probabilities: Floats, labels: Integers) -> Floats:
    """Σ_k (p_k − 1[y = k])², one for each example."""
    distance = probabilities.copy()
    distance[np.arange(len(labels)), labels] -= 1
    return np.asarray(np.square(distance).sum(axis=1))


LogJoint = Callable[[torch.Tensor, torch.Tensor], torch.Tensor | float]


def dyadic_sets(
    inputs: Values, sets: int = 1000, size: int = 10, neighbours: int = 5, seed: int = 0
) -> Integers:
    """Rows of `inputs` for each set, sets × size: near one of two anchors drawn for that set.

    A member is one of the `neighbours` rows nearest to its anchor, the anchor itself among them;
    `neighbours=1` repeats the two anchors.
    """
    from sklearn.neighbors import NearestNeighbors

    rows = floats(inputs, "the inputs")
    rows = rows.reshape(len(rows), -1)
    for number, what in ((sets, "sets"), (size, "size"), (neighbours, "neighbours")):
        check_count(number, what)
    if neighbours > len(rows):
        raise InputError(f"there are {len(rows)} inputs, too few for {neighbours} neighbours.")
    random = np.random.default_rng(seed)
    anchors = random.integers(len(rows), size=(sets, 2))
    near = (
        NearestNeighbors(n_neighbors=neighbours)
        .fit(rows)
        .kneighbors(rows[anchors.ravel()], return_distance=False)
    )
    near = near.reshape(sets, 2, neighbours)
    which = random.integers(2, size=(sets, size))
    member = random.integers(neighbours, size=(sets, size))
    return np.asarray(near[np.arange(sets)[:, None], which, member], dtype=np.int64)


def joint_nll(
    log_joint: LogJoint, inputs: torch.Tensor, labels: torch.Tensor, sets: Iterable[Values]
) -> float:
    """−mean over the sets of log p(Y | X), by a predictor's own `log_joint(inputs, labels)` of one set."""
    values = [float(log_joint(inputs[rows], labels[rows])) for rows in _tensors(sets, inputs.device)]
    return -float(np.mean(floats(values, "the joint log-probabilities")))


def joint_nll_of_draws(probabilities: Values, labels: Values, sets: Values) -> float:
    """−mean over the sets of log (1/S) Σ_s Π_i p_s(y_i | x_i), for draws × n × K probabilities.

    A draw must be one draw of the weights for all rows (an ensemble's member is), else it is no joint.

    >>> joint_nll_of_draws([[[1, 0], [1, 0]], [[0, 1], [0, 1]]], [0, 0], [[0, 1]])  # one of two is right
    0.693...
    """
    draws = floats(probabilities, "the draws")
    if draws.ndim != 3:
        raise ShapeError(f"the draws must be draws × examples × classes, but their shape is {draws.shape}.")
    check_probabilities(draws.reshape(-1, draws.shape[-1]), "the draws")
    truth = as_labels(labels, *draws.shape[1:])
    with np.errstate(divide="ignore"):  # log 0 = −∞ is what a sure and wrong draw deserves
        log_likelihood: Floats = np.log(draws[:, np.arange(len(truth)), truth])  # [draws, examples]
    together = log_likelihood[:, _rows(sets, len(truth))].sum(axis=-1)  # [draws, sets]
    return float(-(np.logaddexp.reduce(together, axis=0) - np.log(len(draws))).mean())


def _rows(sets: Values, examples: int) -> Integers:
    rows = plain(sets)
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "iu":
        raise ShapeError("sets must be rows of examples as integers, sets × size, and not empty.")
    if rows.min() < 0 or rows.max() >= examples:
        raise InputError(f"sets point at row {rows.max()}, but there are {examples} examples.")
    return rows.astype(np.int64)


def _tensors(sets: Iterable[Values], device: torch.device) -> Iterable[torch.Tensor]:
    return (torch.as_tensor(plain(rows), device=device) for rows in sets)
