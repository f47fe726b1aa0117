"""Which labels are probably wrong: confident learning, and probabilities that no row had a part in.

A row labelled i is probably of class j if p_j is at least t_j, the mean of p_j over the rows labelled j,
and the largest of those that are (Northcutt, Jiang and Chuang 2021). The probabilities have to be out of
sample: a classifier believes the labels that it was fitted on. `leave_one_out` gives such ones for given
features in closed form: the ridge regression of the labels without row i predicts f_i − h_ii (y_i − f_i) /
(1 − h_ii), an update of rank one.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from totalcal.scores.arrays import Floats, Integers

_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_SHARPEST = 100.0
_NEAR = 0.05
_BLOCK = 512
_MOST_STEPS = 1000


def confident_classes(probabilities: Floats, labels: Integers) -> Integers:
    """The class that each row is confidently of, by the thresholds of the classes; its label, if of none.

    Example:
        >>> sure = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.1, 0.9], [0.1, 0.9]])
        >>> confident_classes(sure, np.array([0, 0, 1, 1, 0]))
        array([0, 0, 1, 1, 1])
    """
    classes = probabilities.shape[1]
    counts = np.bincount(labels, minlength=classes)
    own = probabilities[np.arange(len(labels)), labels]
    thresholds = np.where(
        counts > 0, np.bincount(labels, own, minlength=classes) / np.maximum(counts, 1), np.inf
    )
    confident = np.where(probabilities >= thresholds - 1e-12, probabilities, -1.0)
    found = confident.argmax(1)
    return np.where(confident.max(1) >= 0, found, labels)


def margins(probabilities: Floats, labels: Integers) -> Floats:
    """p of the label less the largest other: −1 is a label that is certainly wrong."""
    rows = np.arange(len(labels))
    others = probabilities.copy()
    others[rows, labels] = -np.inf
    return np.asarray(probabilities[rows, labels] - others.max(1))


def leave_one_out(features: Floats, labels: Integers, classes: int) -> Floats:
    """Probabilities of each row by a ridge regression on all others; ridge and temperature by their own NLL.

    Example:
        >>> noise = np.random.default_rng(0)
        >>> rows = noise.normal(size=(60, 2)) + 4 * np.repeat([[0], [1]], 30, axis=0)
        >>> found = leave_one_out(rows, np.repeat([0, 1], 30), 2)
        >>> bool(found[:30, 0].mean() > 0.8)
        True
    """
    targets = np.eye(classes)[labels]
    rows = np.hstack([features, np.ones((len(features), 1))])
    values, vectors = np.linalg.eigh(rows.T @ rows)
    turned = rows @ vectors
    onto = turned.T @ targets
    best, chosen = np.inf, targets
    for ridge in _RIDGES:
        weight = 1 / (np.maximum(values, 0) + ridge * values.mean())
        fitted, leverage = turned @ (weight[:, None] * onto), (turned**2 * weight).sum(1)
        share = (leverage / np.maximum(1 - leverage, 1e-9))[:, None]
        without = fitted - share * (targets - fitted)
        for sharpness in np.geomspace(1, _SHARPEST, 20):
            probabilities = _softmax(sharpness * without)
            nll = -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], 1e-300)).mean()
            if nll < best:
                best, chosen = nll, probabilities
    return chosen


def by_worth(doubt: Floats, features: Floats | None) -> Integers:
    """Rows in the order of what their labels are worth: doubt times the distance to the nearest one before.

    What is like a row that is to be labelled anyway is worth little, a copy of it nothing, and what is far
    from all others much. After a thousand rows distances stay what they are.

    Example:
        >>> by_worth(np.array([0.5, 0.9, 0.9, 0.1]), np.array([[0.0], [3.0], [3.0], [9.0]])).tolist()
        [1, 0, 3, 2]
    """
    if features is None or not len(doubt):
        return np.argsort(-doubt, kind="stable")
    squares = (features**2).sum(1)
    nearest, is_left, worth = np.full(len(doubt), np.inf), np.ones(len(doubt), dtype=bool), doubt
    order: list[int] = []
    while len(order) < min(len(doubt), _MOST_STEPS):
        last = int(np.where(is_left, worth, -1.0).argmax())
        order.append(last)
        is_left[last] = False
        to_last = squares + squares[last] - 2 * features @ features[last]
        nearest = np.minimum(nearest, np.sqrt(np.maximum(to_last, 0)))
        worth = doubt * nearest
    rest = np.flatnonzero(is_left)
    return np.concatenate([order, rest[np.argsort(-worth[rest], kind="stable")]]).astype(np.int64)


def near_duplicates(features: Floats) -> Integers:
    """The first row that each row is nearly a copy of; itself if of none.

    Two rows are if they are nearer to each other than a twentieth of the median distance to a nearest row.

    Example:
        >>> near_duplicates(np.array([[0.0, 0], [5, 0], [0, 0.01], [9, 9], [14, 9]])).tolist()
        [0, 1, 0, 3, 4]
    """
    first = np.arange(len(features))
    if len(features) < 3:
        return first
    nearest = np.concatenate([each.min(1) for each in _distances(features)])
    limit = _NEAR * float(np.median(nearest[nearest > 0])) if (nearest > 0).any() else 0.0
    close = np.flatnonzero(nearest <= limit)  # whoever is near to one of these is one of them
    start = 0
    for block in _distances(features[close]):
        for row, near in zip(close[start : start + len(block)], block <= limit, strict=True):
            first[row] = min(first[row], *first[close[near]])
        start += len(block)
    return first


def _distances(rows: Floats) -> Iterator[Floats]:
    """Of every row to every other, in blocks of rows; ∞ to itself. In many dimensions no tree is faster."""
    squares = (rows**2).sum(1)
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        found = squares[start : start + _BLOCK, None] + squares - 2 * block @ rows.T
        found[np.arange(len(block)), np.arange(start, start + len(block))] = np.inf
        yield np.sqrt(np.maximum(found, 0))


def _softmax(logits: npt.NDArray[np.float64]) -> Floats:
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(odds / odds.sum(1, keepdims=True))
