"""What every corruption works on: a block of images as bytes or planes, and the random numbers of it.

Images are [batch, side, side, 3], planes [batch, 3, side, side]. Randomness belongs to an image's place in
its data set, not to the batch it comes in.
"""

from hashlib import blake2b
from importlib import import_module
from types import ModuleType
from typing import Final

import torch
from torch import Tensor

from totalcal.errors import MissingExtraError

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


SLACK: Final = 4e-5
"""In float32 a whole level may come out just below itself; more would lift levels that truly lie below."""


def to_planes(images: Tensor) -> Tensor:
    """Levels 0 … 255, one plane per channel."""
    return images.permute(0, 3, 1, 2).contiguous().float()


def from_planes(planes: Tensor) -> Tensor:
    return truncate(planes).permute(0, 2, 3, 1).contiguous()


def truncate(levels: Tensor) -> Tensor:
    """⌊level⌋ as bytes, clipped: the benchmark cuts off, it never rounds. Uses `levels` up.

    By way of int16: clipping is cheaper there, and so is the way from float to bytes.

    >>> truncate(torch.tensor([-3.0, 7.9, 300.0]))
    tensor([  0,   7, 255], dtype=torch.uint8)
    """
    return levels.add_(SLACK).to(torch.int16).clamp_(0, 255).to(torch.uint8)


def from_grey(images: Tensor) -> Tensor:
    return images.unsqueeze(-1).expand(*images.shape, 3).contiguous()


def to_grey(images: Tensor) -> Tensor:
    """BT.601 luma in integers, ⌊(19595 R + 38470 G + 7471 B + 2¹⁵) / 2¹⁶⌋: exact where R = G = B."""
    red, green, blue = images.int().unbind(-1)
    return ((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16).to(torch.uint8)


def opencv(purpose: str) -> ModuleType:
    return _optional("cv2", "OpenCV", purpose)


def pillow(module: str, purpose: str) -> ModuleType:
    return _optional(f"PIL.{module}", "Pillow", purpose)


def _optional(module: str, package: str, purpose: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(package, "corruptions", purpose) from error
