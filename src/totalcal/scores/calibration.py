"""Calibration: whether what is claimed with confidence c comes true in a share c of the cases.

Every value carries how it was binned: a calibration error without its bins is not a number to compare.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from totalcal.errors import UnknownNameError
from totalcal.scores.arrays import Floats, Values
from totalcal.scores.checks import check_predictions
from totalcal.scores.reliability import Reliability, Scheme, bin_edges, bin_outcomes, bin_places, reliability

Norm = Literal["l1", "l2", "max"]


@dataclass(frozen=True)
class CalibrationError:
    """A calibration error, with the bins that made it."""

    value: float
    scheme: str
    bins: int
    counts: tuple[int, ...]

    def __float__(self) -> float:
        return self.value


def ece(
    probabilities: Values, labels: Values, bins: int = 15, scheme: Scheme = "equal_width", norm: Norm = "l1"
) -> CalibrationError:
    """The expected calibration error, section 2: Σ_m |B_m|/N · |acc(B_m) − conf(B_m)|.

    `norm="l2"` is the root of the weighted squares, `norm="max"` the largest gap of any bin with examples.

    >>> ece([[0.9, 0.1], [0.8, 0.2]], [0, 1], bins=2)
    CalibrationError(value=0.35..., scheme='equal_width', bins=2, counts=(0, 2))
    """
    return from_curve(reliability(probabilities, labels, bins, scheme), norm)


def from_curve(curve: Reliability, norm: Norm = "l1") -> CalibrationError:
    """The calibration error of a reliability curve."""
    return CalibrationError(_norm_of(curve, norm), curve.scheme, curve.bins, tuple(curve.counts.tolist()))


def classwise_ece(
    probabilities: Values, labels: Values, bins: int = 15, scheme: Scheme = "equal_width"
) -> CalibrationError:
    """The mean over the classes of the ECE of p_k as a forecast of 1[y = k].

    The counts are summed over the classes; bins of equal mass differ from class to class, so there the counts
    stand one class after the other.
    """
    array, truth = check_predictions(probabilities, labels)
    curves = [bin_outcomes(array[:, k], truth == k, bins, scheme) for k in range(array.shape[1])]
    value = float(np.mean([_norm_of(curve, "l1") for curve in curves]))
    if scheme == "equal_width":
        counts = np.sum([curve.counts for curve in curves], axis=0)
    else:
        counts = np.concatenate([curve.counts for curve in curves])
    return CalibrationError(value, f"{scheme}, class-wise", bins, tuple(counts.tolist()))


def debiased_calibration_error(
    probabilities: Values, labels: Values, bins: int = 15, scheme: Scheme = "equal_mass"
) -> CalibrationError:
    """The L2 calibration error without the upward bias of small bins (after Kumar, Liang and Ma, 2019).

    With d_i = confidence − outcome, a bin's squared gap is estimated by the mean of d_i d_j over its pairs
    i ≠ j, which is unbiased, where the plain square of the mean adds Var(d)/|B|. The root of a sum below 0
    is 0. A bin of one example has no pair and adds nothing.
    """
    array, truth = check_predictions(probabilities, labels)
    confidence = array.max(axis=1)
    excess = confidence - (array.argmax(axis=1) == truth)
    place = bin_places(confidence, edges := bin_edges(confidence, bins, scheme))
    counts = np.bincount(place, minlength=len(edges) - 1)
    sums, squares = (np.bincount(place, values, len(counts)) for values in (excess, np.square(excess)))
    pairs = (np.square(sums) - squares) / np.maximum(counts * (counts - 1), 1)
    value = float(np.sqrt(max(float(counts / len(truth) @ np.where(counts > 1, pairs, 0.0)), 0.0)))
    return CalibrationError(value, f"{scheme}, debiased l2", len(counts), tuple(counts.tolist()))


def confidence_gap(probabilities: Values, labels: Values) -> float:
    """Mean confidence − accuracy, without any bins: above 0 is overconfident, below 0 underconfident.

    >>> round(confidence_gap([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 2)
    0.35
    """
    array, truth = check_predictions(probabilities, labels)
    return float(array.max(axis=1).mean() - np.mean(array.argmax(axis=1) == truth))


def _norm_of(curve: Reliability, norm: Norm) -> float:
    gaps: Floats = np.abs(curve.gaps)
    match norm:
        case "l1":
            return float(curve.weights @ gaps)
        case "l2":
            return float(np.sqrt(curve.weights @ np.square(gaps)))
        case "max":
            return float(gaps.max())
    raise UnknownNameError("norm", norm, get_args(Norm))
