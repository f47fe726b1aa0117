"""The reliability curve: confidence against accuracy, bin by bin, with counts."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from totalcal.errors import UnknownNameError
from totalcal.scores.arrays import Floats, Integers, Values
from totalcal.scores.checks import check_count, check_predictions

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
