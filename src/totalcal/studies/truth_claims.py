"""What the paper says of the three terms (sections 3 and 4), and what was found."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from totalcal.records import Summary, summarise
from totalcal.studies.truth import Measurement, Plan

HALVED = 0.5


class Claim(NamedTuple):
    """One predictor and the three claims; a ratio is NaN where the predictor has no such term."""

    model: str
    reducible_ratio: float
    """The mean reducible term at the largest N to that at the smallest."""
    irreducible_ratio: float
    """The same of the irreducible term."""
    distance_ratio: float
    """Mean reducible + irreducible in the farthest slice of points to the nearest, at the largest N."""
    distance_correlation: Summary
    """Rank correlation of the same with the distance: a few points of high variance do not move it."""

    @property
    def reducible_shrinks(self) -> bool | None:
        """Whether it at least halves over the sweep."""
        return None if math.isnan(self.reducible_ratio) else self.reducible_ratio <= HALVED

    @property
    def irreducible_stays(self) -> bool | None:
        """Whether it does not halve over the sweep."""
        return None if math.isnan(self.irreducible_ratio) else self.irreducible_ratio > HALVED

    @property
    def variance_grows(self) -> bool | None:
        """Whether the variance is higher on average far from the training data than near it."""
        return None if math.isnan(self.distance_ratio) else self.distance_ratio > 1

    def to_dict(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "distance_correlation": self.distance_correlation._asdict(),
            "reducible_shrinks": self.reducible_shrinks,
            "irreducible_stays": self.irreducible_stays,
            "variance_grows": self.variance_grows,
        }


def claims(found: Sequence[Measurement], plan: Plan) -> list[Claim]:
    """The three claims, for every predictor of the sweep."""
    rows = [row for row in found if row.task == plan.sweep_task]
    return [
        _claim(model, [row for row in rows if row.model == model], plan)
        for model in dict.fromkeys(row.model for row in rows)
    ]


def _claim(model: str, rows: Sequence[Measurement], plan: Plan) -> Claim:
    fewest = [row for row in rows if row.examples == min(plan.sweep)]
    most = [row for row in rows if row.examples == max(plan.sweep)]
    return Claim(
        model,
        _ratio([row.reducible for row in most], [row.reducible for row in fewest]),
        _ratio([row.irreducible for row in most], [row.irreducible for row in fewest]),
        _ratio(
            [row.variance_by_distance[-1][1] for row in most],
            [row.variance_by_distance[0][1] for row in most],
        ),
        summarise(row.distance_correlation for row in most),
    )


def _ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Of the means over seeds."""
    return sum(above) / sum(below) if sum(below) > 0 else math.nan
