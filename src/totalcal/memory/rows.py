"""Rows as a memory takes them: what a pass shows of them, a key of their content, samples by key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import torch
from torch import Tensor

from totalcal.inputs import Inputs, tensors
from totalcal.memory.features import Features
from totalcal.ranks import gathered, is_distributed

_SEED = 0
_ROUNDING = 10  # units of the last place of the largest logit


class Observation(NamedTuple):
    """What one pass shows of a batch: features by the name of their tap, entropy and logits, all at means.

    The logits of a Dirichlet are its log-concentrations.
    """

    features: Mapping[str, Features]
    entropy: Tensor
    logits: Tensor

    @property
    def energy(self) -> Tensor:
        """−log Σ exp l (Liu et al. 2020); of a Dirichlet −log α₀, how little evidence there is.

        Of log-probabilities it is 0 but for rounding, which would rank rows: within it, it is 0.
        """
        found, largest = -self.logits.logsumexp(-1), self.logits.abs().amax(-1)
        return found.where(found.abs() > _ROUNDING * torch.finfo(found.dtype).eps * largest, 0)


class ObservedRows(NamedTuple):
    """An observation, the labels of its rows, and a key per row that is a function of its content."""

    observation: Observation
    labels: Tensor
    keys: Tensor


def row_keys(inputs: Inputs, seed: int = _SEED) -> Tensor:
    """A number in [0, 2⁶³) for each row, a hash of its content: rows chosen by it do not depend on order.

    >>> rows = torch.randn(4, 3)
    >>> torch.equal(row_keys(rows)[2:], row_keys(rows[2:]))
    True
    """
    keys = torch.zeros(len(next(tensors(inputs))), dtype=torch.int64)
    for index, tensor in enumerate(tensors(inputs)):
        words = _as_integers(tensor.detach().cpu()).reshape(len(tensor), -1)
        generator = torch.Generator().manual_seed(seed + index)
        factors = torch.randint(2**62, (words.shape[1],), generator=generator) * 2 + 1
        block = max(1, 2**20 // max(words.shape[1], 1))
        parts = [
            (part.long() * factors).sum(1) for part in words.split(block)
        ]  # wraps around: that is the hash
        keys = mixed(keys + torch.cat(parts))
    return keys


def mixed(keys: Tensor) -> Tensor:
    """Spreads keys over [0, 2⁶³), so that near ones end far apart (the finaliser of splitmix64)."""
    for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685), (31, 1)):
        keys = (keys ^ ((keys >> shift) & (2 ** (64 - shift) - 1))) * factor
    return keys & (2**63 - 1)


def _as_integers(tensor: Tensor) -> Tensor:
    """The bits of a number; of a double in two halves, since that of a small integer ends in 45 zeros, which
    a product keeps: of binary rows only 4,096 sums would differ."""
    views = {8: torch.int32, 4: torch.int32, 2: torch.int16}
    if tensor.is_floating_point():
        return tensor.contiguous().view(views[tensor.element_size()])
    return tensor


@dataclass
class Sample:
    """Rows with the smallest keys, in their order; a row that comes again counts once.

    A function of the set of rows, whatever came first.
    """

    largest: int
    keys: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    rows: Tensor | None = None
    labels: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    waiting: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)

    def add(self, keys: Tensor, rows: Tensor, labels: Tensor) -> None:
        """Rows wait until there are many: to sort them in takes a copy of the sample."""
        if len(self.keys) == self.largest:
            near = keys < self.keys[-1]
            keys, rows, labels = keys[near], rows[near], labels[near]
        self.waiting.append((keys, rows, labels))
        if sum(len(keys) for keys, *_ in self.waiting) > self.largest:
            self.sort_in()

    def sort_in(self) -> Self:
        if self.waiting:
            before = [] if self.rows is None else [(self.keys, self.rows, self.labels)]
            keys, rows, labels = map(torch.cat, zip(*before, *self.waiting, strict=True))
            self.waiting.clear()
            order = keys.argsort(stable=True)
            is_new = torch.ones(len(order), dtype=torch.bool)
            is_new[1:] = keys[order][1:] != keys[order][:-1]
            chosen = order[is_new][: self.largest]
            self.keys, self.rows, self.labels = keys[chosen], rows[chosen], labels[chosen]
        return self

    def over_ranks(self) -> Self:
        self.sort_in()
        if is_distributed():
            for part in gathered((self.keys, self.rows, self.labels)):
                if part[1] is not None:
                    self.add(*part)
        return self.sort_in()
