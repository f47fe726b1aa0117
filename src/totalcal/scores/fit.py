"""Model fit: how near the predictive distribution is to the labels."""

import numpy as np

from totalcal.scores.arrays import (
    Floats,
    Integers,
    Values,
    check_predictions,
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
