"""From bytes to numbers and back. Images are [batch, side, side, 3], planes [batch, 3, side, side]."""

from typing import Final

import torch
from torch import Tensor

SLACK: Final = 4e-5
"""In float32 a whole level may come out just below itself; more would lift levels that truly lie below."""


def to_planes(images: Tensor) -> Tensor:
    """Levels 0 … 255, a plane a channel."""
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
