"""What mistakes and questions cost: the decision of least expected cost.

With calibrated probabilities p the answer k is expected to cost Σ_j p_j C_jk; E is that of the best answer.
An input may also be from elsewhere, with probability q; to answer it costs `miss_ood`. So an answer costs (1
− q) E + q · miss_ood, a question costs `ask`, and the cheaper one is chosen. Where q · miss_ood alone is
more than a question, the verdict is "not my domain".

q comes from the share of inputs that are expected to be from elsewhere and the familiarity p, a p-value: no
alternative makes p more likely than by a factor of 1 / (−e p ln p) (Sellke, Bayarri and Berger 2001; p < 1/e,
and 1 beyond). With this factor q is the largest that the evidence supports.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from totalcal.errors import GateError, InputError
from totalcal.scores.arrays import Floats, Integers


@dataclass(frozen=True)
class Costs:
    """What a wrong answer, a question and a missed input from elsewhere cost, in any unit.

    Attributes:
        wrong: Of a wrong answer; or a matrix, true class × answer, with what is right on its diagonal.
        ask: Of leaving an input to a person.
        miss_ood: Of answering an input that is from elsewhere.
        ood: The share of inputs that are expected to be from elsewhere.

    Example:
        >>> costs = Costs(wrong=10, ask=1)
        >>> costs.expected(np.array([[0.95, 0.05], [0.6, 0.4]]))
        array([0.5, 4. ])
    """

    wrong: float | Sequence[Sequence[float]] = 1.0
    ask: float = 0.2
    miss_ood: float = 0.0
    ood: float = 0.01

    def __post_init__(self) -> None:
        try:
            wrong = np.asarray(self.wrong, dtype=np.float64)
        except (TypeError, ValueError):
            wrong = np.zeros(1)  # rows of different lengths, or no numbers
        if wrong.ndim and (wrong.ndim != 2 or len(wrong) != wrong.shape[1]):
            raise InputError(
                "`wrong` is a number, or a matrix with as many rows as columns, true class × answer."
            )
        values = np.append(wrong.ravel(), [self.ask, self.miss_ood])
        if not (np.isfinite(values) & (values >= 0)).all():
            raise InputError("costs are finite numbers, 0 or more.")
        if not 0 <= self.ood < 1:
            raise InputError(
                f"ood is the share of inputs from elsewhere, at least 0 and below 1, not {self.ood}."
            )
        if self.is_matrix:
            object.__setattr__(self, "wrong", tuple(tuple(map(float, row)) for row in np.asarray(self.wrong)))
        if self.ood * self.miss_ood >= self.ask > 0:
            raise GateError(
                f"at these costs no input would ever be answered: {self.ood:.3g} of them from elsewhere at "
                f"{self.miss_ood:.3g} each are more than a question at {self.ask:.3g}."
            )

    @property
    def is_matrix(self) -> bool:
        """Whether mistakes cost differently."""
        return np.ndim(self.wrong) > 0

    def matrix(self, classes: int) -> Floats:
        """True class × answer. A mistake with a class that was learned later costs as much as the dearest."""
        if not self.is_matrix:
            return float(np.asarray(self.wrong)) * (1 - np.eye(classes))
        given = np.asarray(self.wrong, dtype=np.float64)
        found: Floats = given.max() * (1 - np.eye(max(classes, len(given))))
        found[: len(given), : len(given)] = given
        return found

    def check(self, classes: int) -> None:
        """Whether these are costs of so many classes.

        Raises:
            InputError: If the matrix given is of another size.
        """
        shape = np.shape(self.wrong)
        if shape not in ((), (classes, classes)):
            raise InputError(f"the costs are a matrix of {shape}, but there are {classes} classes.")

    def answers(self, probabilities: Floats) -> Integers:
        """The class of least expected cost for each row."""
        if not self.is_matrix:
            return np.asarray(probabilities.argmax(1))
        return np.asarray((probabilities @ self.matrix(probabilities.shape[1])).argmin(1))

    def expected(self, probabilities: Floats, familiarity: Floats | None = None) -> Floats:
        """What the best answer to each row is expected to cost."""
        inside = (probabilities @ self.matrix(probabilities.shape[1])).min(1)
        if familiarity is None:
            return np.asarray(inside)
        outside = self.probability_of_ood(familiarity)
        return np.asarray((1 - outside) * inside + outside * self.miss_ood)

    def probability_of_ood(self, familiarity: Floats) -> Floats:
        """q, the largest that the evidence supports.

        >>> Costs(ood=0.1).probability_of_ood(np.array([1.0, 0.001])).round(2)
        array([0.1 , 0.86])
        """
        small = np.minimum(familiarity, 1 / math.e)
        against = -math.e * small * np.log(small)  # 1 at p = 1/e
        return np.asarray(self.ood / (self.ood + (1 - self.ood) * against))

    @property
    def least_familiarity(self) -> float:
        """At and below it an answer is too dear whatever the class: q · miss_ood > ask."""
        low, high = 0.0, 1 / math.e
        for _ in range(100):
            middle = (low + high) / 2
            dear = self.probability_of_ood(np.array([middle]))[0] * self.miss_ood > self.ask
            low, high = (middle, high) if dear else (low, middle)
        return low

    def largest(self, classes: int) -> float:
        """The most that a row can cost, answered or asked about."""
        return max(float(self.matrix(classes).max()), self.ask)

    def paid(self, answers: Integers, accepted: Any, truth: Integers, classes: int) -> Floats:
        """What each row of known class cost."""
        return np.where(accepted, self.matrix(classes)[truth, answers], self.ask)

    def told(self, answers: Integers, accepted: Any, truth: Integers, classes: int) -> str:
        """What rows of known class cost, with an interval, in words."""
        mean, low, high = mean_with_interval(
            self.paid(answers, accepted, truth, classes), self.largest(classes)
        )
        every = self.paid(answers, np.ones(len(truth), dtype=bool), truth, classes).mean()
        return (
            f"the decisions cost {mean:.4g} per row (95 %: {low:.4g} to {high:.4g}), where to answer all "
            f"would have cost {every:.4g}, to ask about all {self.ask:.4g}"
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The costs that `as_json` described."""
        return cls(**content)


def mean_with_interval(values: Floats, largest: float) -> tuple[float, float, float]:
    """The mean, and an interval of 95 %: Student's, with a row more that cost nothing, or the largest cost.

    Few rows may hold none of the mistakes that are dear: without that row 90 % of the intervals of 100
    rows held the mean.
    """
    from scipy.stats import t

    limits = []
    for extreme, side in ((0.0, -1), (largest, 1)):
        more = np.append(values, extreme)
        half = t.ppf(0.975, len(values)) * more.std(ddof=1) / math.sqrt(len(more))
        limits.append(float(more.mean() + side * half))
    return float(values.mean()), max(limits[0], 0.0), min(limits[1], largest)
