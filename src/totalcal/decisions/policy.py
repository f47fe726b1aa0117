"""Three verdicts, accept, ask and not my domain, at two rates neither of which dilutes the other.

"Not my domain" goes to inputs with familiarity ≤ α. Familiarity is a conformal p-value, so at most α of all
inputs of the domain get this verdict, however few rows were held out. Among the others, "ask" goes to those
whose entropy is above a bar, a conformal quantile: at most β of those that are answered correctly get it.

The bar is a rank among the rows that the familiarity is a rank among. They are selected as a new input is:
row j is unfamiliar if at most α (n + 1) of the n rows are as unfamiliar as itself. For a new row that is
familiar this is what the selection from all n + 1 rows gives, which treats them alike, so that the quantile
holds for what the selection leaves (selection-conditional conformal prediction, Jin and Ren 2024).

Both rates are means over held-out sets, for inputs exchangeable with the held-out ones.
"""

import math

import numpy as np

from totalcal.calibration.splitting import rows_for
from totalcal.decisions.gate import Bar, Gate, HeldOutRates
from totalcal.decisions.rules import Flags, check_share, conformal_quantile
from totalcal.errors import GateError
from totalcal.scores.arrays import Floats, Values, check_predictions, plain
from totalcal.types import Predictive
from totalcal.uncertainties import FAMILIARITY, uncertainty

ASK, NOT_MY_DOMAIN = "ask", "not my domain"


def three_verdicts(prediction: Predictive, labels: Values, alpha: float = 0.05, beta: float = 0.05) -> Gate:
    """A gate that tells accept, ask and not my domain apart, as far as there are rows to promise it.

    Args:
        prediction: Of the held-out rows that the memory's familiarity is a rank among; of any held-out rows
            where the model has no memory, and so no verdict "not my domain".
        labels: Their classes.
        alpha: Of the inputs of the domain, at most so many are called "not my domain".
        beta: Of the others that are answered correctly, at most so many are "ask".

    Returns:
        The gate. Its `promise` says what holds, and what could not be promised with how many rows.

    Raises:
        GateError: If not even one of the verdicts can be promised.

    Example:
        >>> import torch
        >>> from totalcal.types import PointMass
        >>> held_out = Predictive(PointMass(torch.randn(1, 100, 3)))
        >>> gate = three_verdicts(held_out, held_out.probabilities.argmax(1))
        >>> set(gate(held_out).verdicts) <= {"accept", "ask"}
        True
    """
    check_share(alpha, "alpha")
    check_share(beta, "beta")
    probabilities, truth = check_predictions(prediction.probabilities, labels)
    right, rows = probabilities.argmax(1) == truth, len(truth)
    familiar = np.ones(rows, dtype=bool)
    bars, promises = [], []
    if prediction.domain is not None:
        fewest = math.ceil(1 / alpha - 1e-9) - 1
        if rows >= fewest:
            familiar = ~most_unfamiliar(plain(prediction.unfamiliarity), alpha)
            bars.append(Bar(FAMILIARITY, alpha, NOT_MY_DOMAIN))
            promises.append(f'at most {alpha:.0%} of inputs like the held-out ones are "{NOT_MY_DOMAIN}"')
        else:
            promises.append(
                f'"{NOT_MY_DOMAIN}" at {alpha:.0%} cannot be promised: it takes {fewest} rows, not {rows}'
            )
    counted = prediction.entropy.detach().cpu().double().numpy()[familiar & right]
    if len(counted) >= rows_for(beta):
        bars.append(Bar("entropy", conformal_quantile(counted, 1 - beta, "right answers"), ASK))
        others = "of the others that are" if len(bars) == 2 else "of the inputs"
        promises.append(f'at most {beta:.0%} {others} answered correctly are "{ASK}"')
    else:
        promises.append(
            f'"{ASK}" at {beta:.0%} has no promise: it takes {rows_for(beta)} correct answers, and there are '
            f"{len(counted)}"
        )
    if not bars:
        raise GateError("; ".join(promises) + ". Hold out more rows, or allow higher rates.")
    predicted = probabilities.argmax(1)
    rejected = np.any([bar.rejects(uncertainty(prediction, bar.score), predicted) for bar in bars], axis=0)
    rates = HeldOutRates.of(~rejected, ~right)
    return Gate(tuple(bars), "; ".join(promises), rates, prediction.sampling)


def most_unfamiliar(statistic: Floats, alpha: float) -> Flags:
    """Rows of which at most α (n + 1) are as unfamiliar as themselves."""
    ranked = np.sort(statistic)
    as_large = len(ranked) - np.searchsorted(ranked, statistic, side="left")
    found: Flags = as_large <= alpha * (len(ranked) + 1) + 1e-9
    return found
