"""Which rows of a batch come from elsewhere? A list with a bounded share of false alarms.

A threshold on familiarity bounds the alarms per row: at .05, 50 of 1000 ordinary rows are called unfamiliar,
and if ten rows are from elsewhere most of the list is wrong. Benjamini and Hochberg (1995) bound the share of
the list that is wrong, the false discovery rate (FDR): the k rows of lowest p-value, for the largest k whose
k-th p-value is at most k fdr / B. Conformal p-values of one score on the same held-out rows depend on each
other in the way that the bound allows (Bates, Candès, Lei, Romano and Sesia 2023). It is a mean over held-out
sets and batches, for batches whose ordinary rows are drawn like the held-out ones, each for itself.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from totalcal.decisions.rules import check_share
from totalcal.errors import GateError, InputError
from totalcal.scores.arrays import Floats, Integers


@dataclass(frozen=True, repr=False)
class Discoveries:
    """Rows of a batch that are unlike the held-out ones.

    Attributes:
        rows: Their places in the batch, the least familiar first.
        familiarity: That of every row of the batch.
        fdr: At most this share of `rows` is ordinary, on average.
        held_out: How many held-out rows the familiarity is a rank among.

    Example:
        >>> found = discoveries([0.9, 0.01, 0.4, 0.01], 99, fdr=0.1)
        >>> found.rows.tolist(), found.fewest
        ([1, 3], 1)
    """

    rows: Integers
    familiarity: Floats
    fdr: float
    held_out: int

    @property
    def fewest(self) -> int:
        """So many rows have to be found together, or none is: no p-value is below 1 / (held_out + 1)."""
        return fewest_discoveries(len(self.familiarity), self.held_out, self.fdr)

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which rows of the batch they are."""
        found = np.zeros(len(self.familiarity), dtype=bool)
        found[self.rows] = True
        return found

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return (
            f"{len(self)} of {len(self.familiarity)} rows are unfamiliar, of which at most {self.fdr:.0%} "
            f"are ordinary (on average). With {self.held_out} held-out rows at least {self.fewest} of "
            f"{len(self.familiarity)} rows have to be found for any to be."
        )

    __repr__ = __str__


def fewest_discoveries(rows: int, held_out: int, fdr: float) -> int:
    """k discoveries among B rows need B / (k (n + 1)) ≤ fdr.

    >>> fewest_discoveries(rows=1000, held_out=499, fdr=0.1)
    20
    """
    return max(1, math.ceil(rows / ((held_out + 1) * fdr) - 1e-9))


def promise_of_discoveries(held_out: int, fdr: float = 0.1) -> str:
    """What is promised of a selection, and what so many held-out rows can find; empty if they find nothing.

    >>> promise_of_discoveries(250).rpartition("; ")[2]
    'of 1000 rows it finds 40 or more, or none'
    """
    if fewest_discoveries(1, held_out, fdr) > 1:
        return ""
    return (
        f"of the rows that select_unfamiliar(batch, fdr={fdr:.2g}) finds, at most {fdr:.0%} are like the "
        f"held-out ones; of 1000 rows it finds {fewest_discoveries(1000, held_out, fdr)} or more, or none"
    )


def discoveries(p_values: npt.ArrayLike, held_out: int, fdr: float = 0.1) -> Discoveries:
    """Benjamini–Hochberg on conformal p-values.

    Args:
        p_values: Of one score, which are ranks among the same held-out rows.
        held_out: How many these are.
        fdr: The share of false discoveries that is allowed, on average.

    Returns:
        The rows; none, if the held-out rows cannot tell so few apart.

    Raises:
        GateError: If the held-out rows are too few even if all rows were from elsewhere.
        InputError: If `fdr` is not between 0 and 1, or what is given are not p-values.

    Example:
        >>> len(discoveries([0.5, 0.2, 0.7], 99))
        0
    """
    check_share(fdr, "the false discovery rate")
    values = np.asarray(p_values, dtype=np.float64).ravel()
    if not ((values > 0) & (values <= 1)).all():
        raise InputError("p-values lie between 0 and 1; some of these do not.")
    if fewest_discoveries(1, held_out, fdr) > 1:
        raise GateError(
            f"an FDR of {fdr:.3g} takes {math.ceil(1 / fdr - 1e-9) - 1} held-out rows, and the memory has "
            f"{held_out}. Hold out more rows, or allow more."
        )
    order = np.argsort(values, kind="stable")
    below = np.flatnonzero(values[order] <= fdr * np.arange(1, len(values) + 1) / max(len(values), 1) + 1e-12)
    return Discoveries(order[: below[-1] + 1 if len(below) else 0], values, fdr, held_out)


def check_one_score(domain: Any) -> int:
    """How many held-out rows a memory's p-values are ranks among, if one score gave them all.

    Raises:
        GateError: If there is no memory, or p-values are the largest of several.
    """
    rows = getattr(domain, "calibration", None)
    if rows is None:
        raise GateError(
            "this model has no memory of its domain, so nothing can be said to be unfamiliar. Calibrate it: "
            "totalcal.calibrate(net, train, held_out)."
        )
    names = getattr(domain, "names", ())
    if names:
        raise GateError(
            f"this model has memorised {', '.join(names)} since: its familiarity is the "
            "largest of several p-values, for which no FDR is proven. Select with the model as it was, or "
            "after model.forget(name)."
        )
    return int(rows.shape[-1])
