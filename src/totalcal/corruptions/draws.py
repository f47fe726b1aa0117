"""Randomness that belongs to an image's place in its data set, not to the batch it comes in."""

from hashlib import blake2b
from typing import Final

import torch
from torch import Tensor

BLOCK: Final = 128
"""Images that share one generator. Part of the definition: another number gives other corruptions."""


def stable_seed(*key: object) -> int:
    """A seed from the words of `key`, the same on every machine and in every process.

    >>> stable_seed("cifar10", "fog", 3, 0) == stable_seed("cifar10", "fog", 3, 0)
    True
    """
    digest = blake2b("\x1f".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


class Draws:
    """The random numbers of some rows of one block.

    A draw is always made for the whole block on the CPU, then cut to the rows: so a row's numbers depend
    neither on which rows come with it nor on the device. Shapes are those of one image.
    """

    def __init__(self, seed: int, rows: slice = slice(0, BLOCK), device: torch.device | str = "cpu") -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._rows, self._device = rows, device

    def normal(self, *shape: int, mean: float = 0.0, sd: float = 1.0) -> Tensor:
        values = torch.empty(BLOCK, *shape).normal_(mean, sd, generator=self._generator)
        return self._cut(values)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        return self._cut(torch.empty(BLOCK, *shape).uniform_(low, high, generator=self._generator))

    def coins(self, *shape: int) -> Tensor:
        """True or False, evenly."""
        return self._cut(torch.empty(BLOCK, *shape, dtype=torch.bool).random_(generator=self._generator))

    def words(self, dtype: torch.dtype, *shape: int) -> Tensor:
        """Integers, uniform over all that `dtype` can hold; several come out of one 64-bit draw."""
        values = BLOCK * torch.Size(shape).numel()  # BLOCK is a multiple of the words in 64 bits
        wide = torch.empty(values * dtype.itemsize // 8, dtype=torch.int64)
        wide.random_(-(2**63), None, generator=self._generator)
        return self._cut(wide.view(dtype).view(BLOCK, *shape))

    def _cut(self, values: Tensor) -> Tensor:
        return values[self._rows].to(self._device)
