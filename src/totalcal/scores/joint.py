"""The joint score: labels of a small set of near inputs, predicted together (Definition 1).

Marginal scores cannot tell what is reducible from what is not: two predictors with the same p(y | x) may
disagree on whether two labels of the same region go together. Dyadic sampling (Osband et al., 2022) makes
sets in which they do: every member lies near one of two anchors.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch

from totalcal.errors import InputError, ShapeError
from totalcal.scores.arrays import (
    Floats,
    Integers,
    Values,
    check_count,
    check_labels,
    check_probabilities,
    floats,
    plain,
)

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
    truth = check_labels(labels, *draws.shape[1:])
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
