"""Conformal prediction sets: the classes that cannot be ruled out, with a coverage that holds at any size.

A score says how little a class suits a row. The threshold is the ⌈coverage · (n + 1)⌉-th smallest score of
the true classes of n held-out rows, so that the set of classes at or below it holds the true class of a new,
exchangeable row in at least `coverage` of all cases, whatever the model.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

import numpy as np

from totalcal.errors import GateError, UnknownNameError
from totalcal.rejection.predictions import in_words, sampling_of, steady_sampling
from totalcal.rejection.rules import Flags, conformal_quantile, is_accepted
from totalcal.scores.arrays import Floats, Values, check_predictions, plain
from totalcal.types import DETERMINISTIC, Predictive, Sampling

Method = Literal["aps", "split"]


def unlikeliness(probabilities: Floats) -> Floats:
    """1 − p_k: the smallest sets on average (Sadinle, Lei and Wasserman 2019)."""
    return 1 - probabilities


def cumulated(probabilities: Floats) -> Floats:
    """The probability of all classes at least as likely as k: sets fit each row (Romano et al. 2020).

    >>> cumulated(np.array([[0.2, 0.5, 0.3]]))
    array([[1. , 0.5, 0.8]])
    """
    order = np.argsort(-probabilities, axis=1, kind="stable")
    totals = np.take_along_axis(probabilities, order, axis=1).cumsum(axis=1)
    scores = np.empty_like(totals)
    np.put_along_axis(scores, order, totals, axis=1)
    return scores


_SCORES: Mapping[str, Callable[[Floats], Floats]] = MappingProxyType(
    {"aps": cumulated, "split": unlikeliness}
)


@dataclass(frozen=True)
class PredictionSets:
    """Sets of classes at a chosen coverage, from held-out predictions and their labels."""

    coverage: float
    method: Method
    threshold: float
    sampling: Sampling = DETERMINISTIC

    @classmethod
    def fitted(
        cls, prediction: Predictive, labels: Values, coverage: float = 0.9, method: Method = "aps"
    ) -> Self:
        """Find the threshold.

        Args:
            prediction: Of held-out rows: neither trained on nor used for a choice.
            labels: Their classes.
            coverage: How often the set of a new row must hold its true class, at least.
            method: "split" gives the smallest sets on average, "aps" sets that grow with the uncertainty of a
                row, and so cover easy and hard rows more evenly.

        Returns:
            What makes sets of predictions: call it.

        Raises:
            GateError: If there are too few rows for this coverage; also for predictions of `predict`, whose
                draws are made anew in every call.
            UnknownNameError: If there is no such method.

        Example:
            >>> import torch
            >>> from totalcal.types import PointMass
            >>> held_out = Predictive(PointMass(torch.tensor([[[2.0, 0.0]] * 9])))
            >>> sets = PredictionSets.fitted(held_out, [0] * 8 + [1], coverage=0.8)
            >>> sets(held_out)[0]
            array([ True, False])
        """
        if method not in _SCORES:
            raise UnknownNameError("method", method, get_args(Method))
        if not 0 < coverage < 1:
            raise GateError(f"the coverage must lie between 0 and 1, both left out, but is {coverage}.")
        probabilities, truth = check_predictions(prediction.probabilities, labels)
        scores = _SCORES[method](probabilities)[np.arange(len(truth)), truth]
        threshold = conformal_quantile(scores, coverage, "rows")
        return cls(coverage, method, threshold, steady_sampling(prediction))

    def __call__(self, prediction: Predictive) -> Flags:
        """Rows × classes: which classes are in the set of each row; the likeliest one always is.

        Raises:
            GateError: If the prediction was made with other draws than the held-out ones.
        """
        found = sampling_of(prediction)
        if found != self.sampling:
            raise GateError(
                f"these sets were fitted on {in_words(self.sampling)}, but these are {in_words(found)}. "
                "Predict as then, or fit the sets again."
            )
        probabilities = plain(prediction.probabilities)
        within: Flags = is_accepted(_SCORES[self.method](probabilities), self.threshold)
        within[np.arange(len(within)), probabilities.argmax(1)] = True
        return within

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        sampling = Sampling(**content["sampling"])
        return cls(content["coverage"], content["method"], content["threshold"], sampling)
