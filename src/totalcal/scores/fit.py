"""Model fit: how near the predictive distribution is to the labels."""

import numpy as np

from totalcal.scores.arrays import Values, check_predictions, plain


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
    with np.errstate(divide="ignore"):  # −log 0 is ∞ and stays so
        each = -np.log(array[np.arange(len(truth)), truth])
    return float(each.mean() if weights is None else np.average(each, weights=plain(weights)))


def brier(probabilities: Values, labels: Values) -> float:
    """(1/n) Σ_i Σ_k (p_ik − 1[y_i = k])²: summed over the classes, so from 0 to 2.

    >>> brier([[1.0, 0.0], [1.0, 0.0]], [0, 1])
    1.0
    """
    array, truth = check_predictions(probabilities, labels)
    distance = array.copy()
    distance[np.arange(len(truth)), truth] -= 1
    return float(np.square(distance).sum(axis=1).mean())
