"""Conformal prediction sets.

A set holds the classes that cannot be ruled out. A score says how little a class suits a row. The threshold
is the ⌈coverage · (n + 1)⌉-th smallest score of the true classes of n held-out rows, so that the set of
classes at or below it holds the true class of a new, exchangeable row in at least `coverage` of all cases,
whatever the model.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from totalcal.decisions.rules import Flags, conformal_quantile, is_accepted
from totalcal.errors import GateError, UnknownNameError
from totalcal.scores.arrays import Floats, Integers, Values, check_predictions, plain
from totalcal.types import DETERMINISTIC, Predictive, Sampling

Method = Literal["aps", "raps", "split"]
_MOST_SCORES = 5000
_FREE, _PENALTY = 5, 0.01


def unlikeliness(probabilities: Floats) -> Floats:
    """−p_k: the smallest sets on average (Sadinle, Lei and Wasserman 2019)."""
    return -probabilities


def cumulated(probabilities: Floats) -> Floats:
    """The probability of all classes likelier than k and half of k's own, less 1 (APS, Romano et al. 2020).

    Half in the place of a random share: the set of a row is always the same, and no larger than at random on
    average; with the whole of p_k a net that is sure of most rows would need nearly all classes of others.
    Counted from the unlikely end, where differences are small: 1 − 10⁻⁹ and 1 − 10⁻⁶ are far apart.

    >>> cumulated(np.array([[0.25, 0.5, 0.25]]))
    array([[-0.375, -0.75 , -0.125]])
    """
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=1)
    unlikelier = ranked[:, ::-1].cumsum(axis=1)[:, ::-1] - ranked / 2
    return _by_class(-unlikelier, order)


def regularised(probabilities: Floats) -> Floats:
    """APS, and 0.01 for each class beyond the fifth: few sets are large (RAPS, Angelopoulos et al. 2021).

    >>> bool(regularised(np.full((1, 10), 0.1))[0, 9] > cumulated(np.full((1, 10), 0.1))[0, 9])
    True
    """
    order = np.argsort(-probabilities, axis=1, kind="stable")
    beyond = np.maximum(np.arange(1, probabilities.shape[1] + 1) - _FREE, 0)
    return cumulated(probabilities) + _PENALTY * _by_class(np.broadcast_to(beyond, order.shape), order)


def _by_class(ranked: npt.NDArray[Any], order: Integers) -> Floats:
    """What belongs to the first, second, … class of each row, in the order of the classes."""
    placed = np.empty(order.shape)
    np.put_along_axis(placed, order, ranked, axis=1)
    return placed


_SCORES: Mapping[str, Callable[[Floats], Floats]] = MappingProxyType(
    {"aps": cumulated, "raps": regularised, "split": unlikeliness}
)


@dataclass(frozen=True)
class PredictionSets:
    """Sets of classes at a chosen coverage, from held-out predictions and their labels.

    Attributes:
        coverage: How often a set must hold the true class, at least.
        method: Which score of a class.
        scores: That of the true class of each held-out row, in ascending order; 5000 of them at the most,
            chosen at random.
        sampling: How the held-out predictions were made, and others have to be made.
        class_groups: The group of each class, where classes have thresholds of their own.
        by_group: The scores of the rows of each group, in ascending order.

    Example:
        >>> import torch
        >>> from totalcal.types import PointMass
        >>> held_out = Predictive(PointMass(torch.tensor([[[2.0, 0.0]] * 9])))
        >>> PredictionSets.fitted(held_out, [0] * 9, coverage=0.8)(held_out).sum(1).tolist()
        [1, 1, 1, 1, 1, 1, 1, 1, 1]
    """

    coverage: float
    method: Method
    scores: tuple[float, ...]
    sampling: Sampling = DETERMINISTIC
    class_groups: tuple[int, ...] = ()
    by_group: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.coverage < 1:
            raise GateError(f"the coverage must lie strictly between 0 and 1, but is {self.coverage}.")
        if self.method not in _SCORES:
            raise UnknownNameError("method", self.method, get_args(Method))
        if max(self.class_groups, default=-1) >= len(self.by_group):
            raise GateError(f"there are scores of {len(self.by_group)} groups of classes, and more groups.")

    @classmethod
    def fitted(
        cls,
        prediction: Predictive,
        labels: Values,
        coverage: float = 0.9,
        method: Method = "split",
        groups: Sequence[int] = (),
    ) -> Self:
        """Find the threshold.

        Args:
            prediction: Of held-out rows: neither trained on nor used for a choice.
            labels: Their classes.
            coverage: How often the set of a new row must hold its true class, at least.
            method: "split" gives the smallest sets on average; "aps" covers easy and hard rows more evenly,
                with larger sets; "raps" is between them where there are many classes.
            groups: A number per class: the coverage then holds for the inputs of each group of classes by
                itself (Mondrian), where the group has rows enough, else as for all.

        Returns:
            What makes sets of predictions: call it.

        Raises:
            GateError: If there are too few rows for this coverage.
            UnknownNameError: If there is no such method.

        Example:
            >>> import torch
            >>> from totalcal.types import PointMass
            >>> held_out = Predictive(PointMass(torch.tensor([[[2.0, 0.0]] * 9])))
            >>> sets = PredictionSets.fitted(held_out, [0] * 8 + [1], coverage=0.8)
            >>> sets(held_out)[0]
            array([ True, False])
        """
        empty = cls(coverage, method, (), prediction.sampling)
        probabilities, truth = check_predictions(prediction.probabilities, labels)
        scores = _SCORES[method](probabilities)[np.arange(len(truth)), truth]
        if len(scores) > _MOST_SCORES:  # which rows stay must not depend on their scores
            chosen = np.random.default_rng(0).choice(len(scores), _MOST_SCORES, replace=False)
            scores, truth = scores[chosen], truth[chosen]
        found = replace(empty, scores=_sorted(scores))
        if groups:
            of_row = np.array(groups)[truth]
            by_group = tuple(_sorted(scores[of_row == group]) for group in range(max(groups) + 1))
            found = replace(found, class_groups=tuple(groups), by_group=by_group)
        found.threshold  # noqa: B018 (too few rows are told here)
        return found

    @cached_property
    def threshold(self) -> float:
        """The largest score of a class within a set, but for classes with thresholds of their own."""
        return conformal_quantile(np.array(self.scores), self.coverage, "rows")

    def thresholds(self, classes: int) -> Floats:
        """That of each class; the common one for groups with too few rows and classes learned later."""
        found = np.full(classes, self.threshold)
        for place, group in enumerate(self.class_groups):
            scores = self.by_group[group]
            if len(scores) >= fewest_rows(self.coverage):
                found[place] = conformal_quantile(np.array(scores), self.coverage, "rows")
        return found

    def at(self, coverage: float) -> Self:
        """Sets of another coverage, from the same held-out rows."""
        return replace(self, coverage=coverage)

    def __call__(self, prediction: Predictive) -> Flags:
        """Rows × classes: which classes are in the set of each row; the likeliest one always is.

        Raises:
            GateError: If the prediction was made with other draws than the held-out ones.
        """
        if prediction.sampling != self.sampling:
            raise GateError(
                f"these sets were fitted on predictions {self.sampling}, but these were made "
                f"{prediction.sampling}. Predict as then, or fit the sets again."
            )
        return self.of(plain(prediction.probabilities))

    def of(self, probabilities: Values) -> Flags:
        """The sets of rows of which only the probabilities are at hand, made as the held-out ones."""
        given = plain(probabilities)
        within: Flags = is_accepted(_SCORES[self.method](given), self.thresholds(given.shape[1]))
        within[np.arange(len(within)), given.argmax(1)] = True
        return within

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The sets that `as_json` described."""
        sampling = Sampling(**content["sampling"])
        lists = {name: tuple(content[name]) for name in ("scores", "class_groups")}
        by_group = tuple(map(tuple, content["by_group"]))
        return cls(**{**content, **lists, "sampling": sampling, "by_group": by_group})


def fewest_rows(coverage: float) -> int:
    """How many rows a coverage takes.

    >>> fewest_rows(0.9)
    9
    """
    return math.ceil(coverage / (1 - coverage) - 1e-9)


def _sorted(scores: Floats) -> tuple[float, ...]:
    return tuple(np.sort(scores).tolist())
