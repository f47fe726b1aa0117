"""Scores of a stream: what error, NLL, Brier and ECE need of ten million predictions fits in a few sums."""

from typing import Self

import numpy as np

from totalcal.errors import InputError
from totalcal.scores.arrays import Values, check_count, check_predictions, floats
from totalcal.scores.calibration import CalibrationError, Reliability, bin_edges, bin_places, from_curve
from totalcal.scores.fit import negative_log_likelihoods, squared_distances


class RunningScores:
    """Error, NLL, Brier and ECE over batches; two of them merge, so that workers can share a test set.

    >>> running = RunningScores(bins=10)
    >>> running.update([[0.9, 0.1]], [0])
    >>> running.update([[0.2, 0.8], [0.6, 0.4]], [1, 1])
    >>> running.examples, round(running.error, 4), running.ece.counts
    (3, 0.3333, (0, 0, 0, 0, 0, 1, 0, 1, 1, 0))
    """

    def __init__(self, bins: int = 15) -> None:
        self.bins = check_count(bins, "bins")
        self._edges = bin_edges(np.zeros(1), bins, "equal_width")
        self._counts = np.zeros(bins, dtype=np.int64)
        self._correct = np.zeros(bins, dtype=np.int64)
        self._confidence = np.zeros(bins)
        self._nll = 0.0
        self._brier = 0.0

    def update(self, probabilities: Values, labels: Values, log_likelihoods: Values | None = None) -> None:
        """Take one more batch; the batch may be of any size, the sums do not depend on the split.

        `log_likelihoods`, log p(y | x), are those of the probabilities unless given: they stay finite where a
        probability is too small for float64.
        """
        array, truth = check_predictions(probabilities, labels)
        confidence, correct = array.max(axis=1), array.argmax(axis=1) == truth
        place = bin_places(confidence, self._edges)
        self._counts += np.bincount(place, minlength=self.bins)
        self._correct += np.bincount(place[correct], minlength=self.bins)
        self._confidence += np.bincount(place, confidence, self.bins)
        if log_likelihoods is None:
            self._nll += float(negative_log_likelihoods(array, truth).sum())
        else:
            self._nll -= float(floats(log_likelihoods, "the log-likelihoods").sum())
        self._brier += float(squared_distances(array, truth).sum())

    def merge(self, other: Self) -> None:
        """Take what another one has seen."""
        if self.bins != other.bins:
            raise InputError(f"scores of {self.bins} bins cannot take in scores of {other.bins} bins.")
        self._counts += other._counts
        self._correct += other._correct
        self._confidence += other._confidence
        self._nll += other._nll
        self._brier += other._brier

    @property
    def examples(self) -> int:
        return int(self._counts.sum())

    @property
    def error(self) -> float:
        return 1 - int(self._correct.sum()) / self._seen()

    @property
    def nll(self) -> float:
        return self._nll / self._seen()

    @property
    def brier(self) -> float:
        return self._brier / self._seen()

    @property
    def ece(self) -> CalibrationError:
        return from_curve(self.reliability)

    @property
    def reliability(self) -> Reliability:
        self._seen()
        with np.errstate(invalid="ignore"):
            return Reliability(
                "equal_width",
                self._edges,
                self._counts.copy(),
                self._confidence / self._counts,
                self._correct / self._counts,
            )

    def _seen(self) -> int:
        if not self.examples:
            raise InputError("no predictions came yet; a score needs at least one example.")
        return self.examples
