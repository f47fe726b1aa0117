"""What to do with each input: accept, ask, or not my domain. Two rates, neither of which dilutes the other.

"Not my domain" goes to inputs with familiarity ≤ α. Familiarity is a conformal p-value, so that at most α of
all inputs of the domain get this verdict, whatever their number of held-out rows. Among the rest, "ask" goes
to those whose confidence lies below a bar: a conformal quantile, so that at most β of the inputs that are
answered rightly get it. The held-out rows that the bar is a rank among are those of the familiarity. They
are selected as a new input is: row j counts as unfamiliar if at most α (n + 1) of the n rows are as
unfamiliar as itself. That selection treats all n + 1 rows alike, hence the quantile holds for what it leaves
(Jin and Ren 2024).

Both rates are means over held-out sets, for inputs exchangeable with the held-out ones.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from totalcal.calibration.splitting import rows_for
from totalcal.errors import GateError
from totalcal.decisions.gate import Cost, Decisions
from totalcal.decisions.predictions import in_words, sampling_of, steady_sampling
from totalcal.decisions.rules import Flags, conformal_quantile, is_accepted
from totalcal.scores.arrays import Floats, Values, check_predictions, plain
from totalcal.types import Predictive, Sampling

ACCEPT, ASK, NOT_MY_DOMAIN = "accept", "ask", "not my domain"


@dataclass(frozen=True)
class Policy:
    """Decides about predictions; made by `Policy.fitted`.

    Attributes:
        alpha: The share of inputs of the domain that may be called "not my domain".
        beta: The share of inputs answered rightly that may be asked about.
        bar: What 1 − confidence must not exceed; None where too few rows were answered rightly to set it.
        knows_domain: Whether predictions have a familiarity.
        rows: How many held-out rows carry the promises.
        right: How many of them are familiar and answered rightly.
        cost: What it does to these rows.
        sampling: How their predictions were made, and new ones must be made.
    """

    alpha: float
    beta: float
    bar: float | None
    knows_domain: bool
    rows: int
    right: int
    cost: Cost
    sampling: Sampling

    @classmethod
    def fitted(cls, prediction: Predictive, labels: Values, alpha: float = 0.05, beta: float = 0.05) -> Self:
        """From predictions of the rows that the promises rest on.

        Args:
            prediction: Of the held-out rows that the memory's familiarity is a rank among; or of any, where
                the model has no memory.
            labels: Their classes.
            alpha: The rate of "not my domain".
            beta: The rate of "ask".

        Returns:
            The policy; `bar` is None, and nothing asked about, where β needs more right answers.

        Raises:
            GateError: If a rate does not lie between 0 and 1.

        Example:
            >>> import torch
            >>> from totalcal.types import PointMass
            >>> held_out = Predictive(PointMass(torch.randn(1, 100, 3)))
            >>> policy = Policy.fitted(held_out, held_out.probabilities.argmax(1))
            >>> set(policy(held_out).verdicts) <= {"accept", "ask"}
            True
        """
        for name, rate in (("alpha", alpha), ("beta", beta)):
            if not 0 < rate < 1:
                raise GateError(f"{name} must lie strictly between 0 and 1, but is {rate}.")
        probabilities, truth = check_predictions(prediction.probabilities, labels)
        right = probabilities.argmax(1) == truth
        knows_domain = prediction.domain is not None
        familiar = np.ones(len(truth), dtype=bool)
        if knows_domain:
            familiar = ~_most_unfamiliar(plain(prediction.unfamiliarity), alpha)
        doubt = 1 - probabilities.max(1)
        counted = doubt[familiar & right]
        bar = (
            conformal_quantile(counted, 1 - beta, "right answers") if len(counted) >= rows_for(beta) else None
        )
        accepted = familiar & (np.ones_like(familiar) if bar is None else is_accepted(doubt, bar))
        cost = Cost.of(accepted, ~right)
        sampling = steady_sampling(prediction)
        return cls(alpha, beta, bar, knows_domain, len(truth), len(counted), cost, sampling)

    def __call__(self, prediction: Predictive) -> Decisions:
        """A verdict for each row, with its reason.

        Raises:
            GateError: If the predictions were made with other draws than those of the held-out rows.
        """
        found = sampling_of(prediction)
        if found != self.sampling:
            raise GateError(
                f"the decisions rest on {in_words(self.sampling)}, but these are {in_words(found)}: the "
                "promise does not hold for them. Call predict without `draws`."
            )
        doubt = 1 - plain(prediction.probabilities).max(1)
        verdicts, reasons = [ACCEPT] * len(doubt), [""] * len(doubt)
        if self.bar is not None:
            for row in np.flatnonzero(~is_accepted(doubt, self.bar)).tolist():
                verdicts[row] = ASK
                reasons[row] = f"confidence {1 - doubt[row]:.2f} is below {1 - self.bar:.2f}"
        if self.knows_domain:
            familiarity = plain(prediction.familiarity)
            for row in np.flatnonzero(familiarity <= self.alpha).tolist():
                verdicts[row] = NOT_MY_DOMAIN
                reasons[row] = f"familiarity {familiarity[row]:.3f}: {_unlike(prediction, row)}"
        return Decisions(np.array([verdict == ACCEPT for verdict in verdicts]), verdicts, reasons)

    @property
    def promises(self) -> list[str]:
        """What holds for new inputs like the held-out ones, and what could not be promised."""
        said = []
        if not self.knows_domain:
            said.append("no familiarity: without the net's layers nothing is known of its domain")
        elif (self.rows + 1) * self.alpha < 1:
            said.append(
                f'"{NOT_MY_DOMAIN}" at {self.alpha:.0%} cannot be said: {self.rows} rows carry the promise, '
                f"and it takes {math.ceil(1 / self.alpha - 1e-9) - 1}"
            )
        else:
            said.append(f'at most {self.alpha:.0%} of inputs of the domain are called "{NOT_MY_DOMAIN}"')
        if self.bar is None:
            said.append(
                f'"{ASK}" at {self.beta:.0%} has no promise: it takes {rows_for(self.beta)} right answers, '
                f"and there are {self.right}"
            )
        else:
            rest = " of the others" if self.knows_domain else ""
            said.append(f'at most {self.beta:.0%}{rest} that are answered correctly are "{ASK}"')
        return said

    def __str__(self) -> str:
        return "; ".join(self.promises) + f". {self.cost}."

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The policy that `as_json` described."""
        own = {**content, "cost": Cost(**content["cost"]), "sampling": Sampling(**content["sampling"])}
        return cls(**own)


def _most_unfamiliar(statistic: Floats, alpha: float) -> Flags:
    """Rows of which at most α (n + 1) are as unfamiliar as themselves."""
    ranked = np.sort(statistic)
    as_large = len(ranked) - np.searchsorted(ranked, statistic, side="left")
    found: Flags = as_large <= alpha * (len(ranked) + 1) + 1e-9
    return found


def _unlike(prediction: Predictive, row: int) -> str:
    """Which of the two numbers is the smaller: unlike the whole domain, or unlike each class of it."""
    domain = getattr(prediction.domain, "unlike_domain", None)
    classes = getattr(prediction.domain, "unlike_classes", None)
    if domain is None or classes is None:
        return "not from here"
    return "not from here" if float(domain[row]) <= float(classes[row]) else "no class I know"
