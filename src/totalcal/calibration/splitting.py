"""One held-out set, split inside: some rows fit (calibrator, tails of the memory), the others promise.

What is fitted may be chosen freely and needs no row of its own; what is promised needs rows that nothing was
fitted on. The promises share theirs: each is a rank among exchangeable rows, and "ask" is a rank among those
rows that the first verdict leaves, a selection that is symmetric in all of them (selection-conditional
conformal prediction, Jin and Ren 2024). Which row goes where is a function of what stands in it, not of its
place: rows are ranked by a hash of inputs and label, copies of a row by a hash of how many came before, so
that they are spread as at random.
"""

import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from totalcal.errors import InputError
from totalcal.inputs import Inputs
from totalcal.memory.rows import mixed, row_keys

MOST_OVERLAP = 0.5
_FEWEST_FITTING = 20
_LARGEST_SHARE = 3, 4  # of few rows, so many promise at most
_STEP = 0x5851F42D4C957F2D


class OverlapWarning(UserWarning):
    """Held-out rows are also training rows."""


class FewRowsWarning(UserWarning):
    """The held-out rows are too few for what was to be promised."""


@dataclass(frozen=True)
class HeldOutSplit:
    """Places of rows in the held-out set, each in an order of their content.

    Attributes:
        fitting: Rows that the calibrator and the tails of the memory are fitted on.
        promising: Rows that p-values, bars and sets are ranks among.
        groups: How many groups the promising rows come from; None where rows stand alone.
    """

    fitting: Tensor
    promising: Tensor
    groups: int | None = None

    def __str__(self) -> str:
        kept = "" if self.groups is None else f" from {self.groups} groups"
        return f"{len(self.fitting)} fit, {len(self.promising)} others{kept} carry the promises"


def split_held_out(
    inputs: Inputs, labels: Tensor, *, needed: int, groups: Sequence[Any] | None = None, seed: int = 0
) -> HeldOutSplit:
    """Half of the rows fit and half promise; of few rows more promise, as far as promises need them.

    Args:
        inputs: The held-out rows.
        labels: Their classes.
        needed: How many rows the promises need (`decisions.rules.rows_for`).
        groups: What each row belongs to, such as a patient or a day; a group is never divided.
        seed: Another one gives another split.

    Returns:
        Which rows serve what.

    Raises:
        InputError: If groups and rows do not match, or there is one group only.

    Example:
        >>> rows = torch.arange(100.0)[:, None]
        >>> found = split_held_out(rows, torch.zeros(100, dtype=torch.long), needed=60)
        >>> len(found.fitting), len(found.promising)
        (40, 60)
    """
    rows = len(labels)
    part, of = _LARGEST_SHARE
    wanted = max(rows // 2, min(needed, rows * part // of, rows - _FEWEST_FITTING))
    order = spread_keys(inputs, labels, seed).argsort(stable=True)
    if groups is None:
        return HeldOutSplit(order[wanted:], order[:wanted])
    if len(groups) != rows:
        raise InputError(f"groups has {len(groups)} entries, but there are {rows} held-out rows.")
    names = [str(group) for group in groups]
    ranked = sorted(set(names), key=lambda name: zlib.crc32(f"{seed}:{name}".encode()))
    if len(ranked) < 2:
        raise InputError("all held-out rows belong to one group, which cannot be divided. Give more groups.")
    sizes = Counter(names)
    promising: set[str] = set()
    filled = 0
    for name in ranked[:-1]:
        if filled >= wanted:
            break
        promising.add(name)
        filled += sizes[name]
    is_promising = torch.tensor([names[place] in promising for place in order.tolist()])
    return HeldOutSplit(order[~is_promising], order[is_promising], len(promising))


def rows_to_hold_out(needed: int) -> int:
    """How many rows have to be held out for so many to promise.

    >>> rows_to_hold_out(44), rows_to_hold_out(222)
    (64, 296)
    """
    part, of = _LARGEST_SHARE
    return max(needed + _FEWEST_FITTING, -(-needed * of // part))


def spread_keys(inputs: Inputs, labels: Tensor, seed: int = 0) -> Tensor:
    """A number for each row, as good as random, and a function of what stands in it; copies have their own.

    >>> rows, labels = torch.zeros(3, 1), torch.tensor([0, 0, 1])
    >>> len(set(spread_keys(rows, labels).tolist()))
    3
    """
    keys = mixed(row_keys(inputs) + mixed(labels.cpu().long() + _STEP * (seed + 1)))
    order = keys.argsort(stable=True)
    ranked = keys[order]
    firsts = torch.searchsorted(ranked, ranked, side="left")
    copies = torch.empty_like(keys)
    copies[order] = torch.arange(len(keys)) - firsts
    return mixed(keys + copies * _STEP)


def check_apart(train: Tensor, held_out: Tensor) -> float:
    """The share of held-out rows that are training rows, too, by their `row_keys`: warned of, or refused.

    Raises:
        InputError: If it is more than half of them.
    """
    if not len(held_out):
        return 0.0
    share = float(torch.isin(held_out, train).double().mean())
    words = f"{share:.1%} of the held-out rows are training rows as well"
    if share > MOST_OVERLAP:
        raise InputError(
            f"{words}. A net is too sure of what it was trained on, so nothing can be calibrated on them: "
            "give rows that it was not trained on."
        )
    if share > 0:
        warnings.warn(f"{words}: calibration and promises are too rosy by them.", OverlapWarning, 3)
    return share
