"""Calibration: whether what is claimed with confidence c comes true in a share c of the cases.

The reliability curve, errors over its bins, and one without bins. Every value carries how it was binned: a
calibration error without its bins is not a number to compare.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from totalcal.errors import UnknownNameError
from totalcal.scores.arrays import Floats, Integers, Values, check_count, check_predictions

Scheme = Literal["equal_width", "equal_mass"]


@dataclass(frozen=True)
class Reliability:
    """Bins (lower, upper], the number of examples in each, and what was claimed and reached there.

    An empty bin has confidence and accuracy NaN, and weight 0.
    """

    scheme: Scheme
    edges: Floats  # [bins + 1]
    counts: Integers  # [bins]
    confidence: Floats  # [bins]
    accuracy: Floats  # [bins]

    @property
    def bins(self) -> int:
        return len(self.counts)

    @property
    def weights(self) -> Floats:
        """|B_m| / N."""
        return np.asarray(self.counts / self.counts.sum())

    @property
    def gaps(self) -> Floats:
        """conf(B_m) − acc(B_m): positive where the predictor claims too much; 0 in an empty bin."""
        return np.nan_to_num(self.confidence - self.accuracy)

    @property
    def overconfidence(self) -> float:
        """The part of the ECE that comes from bins that claim too much."""
        return float(self.weights @ np.maximum(self.gaps, 0))

    @property
    def underconfidence(self) -> float:
        """The part of the ECE that comes from bins that claim too little."""
        return float(self.weights @ np.maximum(-self.gaps, 0))

    @property
    def direction(self) -> Literal["overconfident", "underconfident", "balanced"]:
        """Which of the two parts is the larger."""
        if self.overconfidence == self.underconfidence:
            return "balanced"
        return "overconfident" if self.overconfidence > self.underconfidence else "underconfident"


def reliability(
    probabilities: Values, labels: Values, bins: int = 15, scheme: Scheme = "equal_width"
) -> Reliability:
    """The curve of the top class: confidence max_k p_k against its accuracy.

    >>> curve = reliability([[0.9, 0.1], [0.8, 0.2]], [0, 1], bins=2)
    >>> curve.counts, curve.confidence.round(2), curve.accuracy
    (array([0, 2]), array([ nan, 0.85]), array([nan, 0.5]))
    """
    array, truth = check_predictions(probabilities, labels)
    return bin_outcomes(array.max(axis=1), array.argmax(axis=1) == truth, bins, scheme)


def bin_outcomes(
    confidence: Floats, outcome: npt.NDArray[np.bool_], bins: int, scheme: Scheme = "equal_width"
) -> Reliability:
    """Binary outcomes, each claimed with some confidence, in bins."""
    edges = bin_edges(confidence, bins, scheme)
    place = bin_places(confidence, edges)
    counts = np.bincount(place, minlength=len(edges) - 1)
    with np.errstate(invalid="ignore"):  # 0/0 in an empty bin is NaN and means so
        return Reliability(
            scheme,
            edges,
            counts,
            np.bincount(place, confidence, len(counts)) / counts,
            np.bincount(place, outcome, len(counts)) / counts,
        )


def bin_edges(confidence: Floats, bins: int, scheme: Scheme) -> Floats:
    """The M + 1 edges over [0, 1]. Of equal mass, ties share a bin, so there may be fewer than asked for."""
    check_count(bins, "bins")
    match scheme:
        case "equal_width":
            return np.arange(bins + 1) / bins
        case "equal_mass":
            inner = np.quantile(confidence, np.arange(1, bins) / bins, method="inverted_cdf")
            return np.unique(np.concatenate([[0.0], inner[inner < confidence.max()], [1.0]]))
    raise UnknownNameError("bin scheme", scheme, get_args(Scheme))


def bin_places(confidence: Floats, edges: Floats) -> Integers:
    """The bin of each confidence: intervals (lo, hi], and 0 belongs to the first."""
    return np.searchsorted(edges[1:-1], confidence, side="left")


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
    curve = reliability(probabilities, labels, bins, scheme)
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


GRID = 4096  # intervals over [0, 1]; the value moves by less than one of them
PRECISION = 1e-5


def smooth_ece(probabilities: Values, labels: Values) -> CalibrationError:
    """∫₀¹ |(1/n) Σ_i (1[y_i = ŷ_i] − c_i) K_σ(t, c_i)| dt, at the σ that equals the value itself.

    K_σ is a Gaussian reflected at 0 and 1. No bin edge can move the value, and no bandwidth is chosen by
    hand: the integral falls as σ grows, so there is one σ where both are equal.
    """
    array, truth = check_predictions(probabilities, labels)
    confidence = array.max(axis=1)
    residuals = _on_grid(confidence, (array.argmax(axis=1) == truth) - confidence)
    low, high = 1 / GRID, 1.0
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if _smoothed(residuals, middle) > middle else (low, middle)
    return CalibrationError(_smoothed(residuals, high), f"reflected Gaussian, σ = {high:.4f}", GRID, ())


def _on_grid(confidence: Floats, residual: Floats) -> Floats:
    """The residuals' mass in each cell, shared between the two cells whose centres are nearest."""
    position = np.clip(confidence * GRID - 0.5, 0, GRID - 1)
    left = np.minimum(position.astype(np.int64), GRID - 2)
    share = position - left
    mass = np.bincount(left, residual * (1 - share), GRID) + np.bincount(left + 1, residual * share, GRID)
    return mass / len(confidence)


def _smoothed(mass: Floats, sigma: float) -> float:
    """∫ |K_σ mass|: a Gaussian reflected at both ends is diagonal in the cosine transform."""
    from scipy.fft import dct, idct

    frequency = np.pi * np.arange(len(mass))
    smooth = idct(dct(mass) * np.exp(-np.square(frequency * sigma) / 2))
    return float(np.abs(smooth).sum())
