"""Linear maps of planes as matrices: every blur that treats all images alike is Σₖ Rₖ X Cₖᵀ."""

from collections.abc import Callable
from functools import lru_cache
from math import ceil

import torch
from torch import Tensor

Border = Callable[[Tensor, int], Tensor]


def nearest(index: Tensor, size: int) -> Tensor:
    """a a | a b c d | d d"""
    return index.clamp(0, size - 1)


def reflect(index: Tensor, size: int) -> Tensor:
    """b a | a b c d | d c"""
    index = index % (2 * size)
    return torch.minimum(index, 2 * size - 1 - index)


def mirror(index: Tensor, size: int) -> Tensor:
    """c b | a b c d | c b"""
    index = index % (2 * size - 2)
    return torch.minimum(index, 2 * size - 2 - index)


def apply(planes: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Σₖ Rₖ X Cₖᵀ for every plane X, R and C [terms, side, side].

    Two products whatever the number of terms: X C₁ᵀ … X Cₖᵀ lie in memory just as the second one reads them.
    """
    terms, side, _ = rows.shape
    right = columns.permute(2, 0, 1).reshape(side, terms * side).to(planes)
    left = rows.permute(1, 2, 0).reshape(side, side * terms).to(planes)
    across = planes.reshape(-1, side) @ right  # [planes · side, terms · side]
    return (left @ across.view(-1, side * terms, side)).view_as(planes)


def band(taps: Tensor, size: int, border: Border) -> Tensor:
    """The matrix that correlates a line of `size` pixels with an odd number of centred taps."""
    radius = len(taps) // 2
    source = torch.arange(size)[:, None] + torch.arange(-radius, radius + 1)  # [size, taps]
    matrix = torch.zeros(size, size, dtype=torch.float64)
    return matrix.scatter_add_(1, border(source, size), taps.double().expand(size, -1))


def gaussian_taps(sigma: float, radius: int) -> Tensor:
    taps = torch.exp(-0.5 * (torch.arange(-radius, radius + 1, dtype=torch.float64) / sigma) ** 2)
    return taps / taps.sum()


@lru_cache(maxsize=32)
def gaussian(size: int, sigma: float, border: Border = nearest, truncate: float = 4.0) -> Tensor:
    """Smoothing with a Gaussian cut at `truncate` standard deviations, [1, size, size]."""
    return band(gaussian_taps(sigma, int(truncate * sigma + 0.5)), size, border).unsqueeze(0)


def smooth(planes: Tensor, sigma: float, border: Border = nearest, truncate: float = 4.0) -> Tensor:
    matrix = gaussian(planes.shape[-1], sigma, border, truncate)
    return apply(planes, matrix, matrix)


def zoom_geometry(size: int, factor: float) -> tuple[int, int]:
    """Pixels that are seen, and the pixels they are stretched to, for a zoom into the middle."""
    seen = ceil(size / factor)
    return seen, round(seen * factor)


@lru_cache(maxsize=32)
def zoom(size: int, seen: int, stretched: int) -> Tensor:
    """Bilinear resize of the middle `seen` pixels to `stretched`, corners on corners, then cut to `size`."""
    first, trim = (size - seen) // 2, (stretched - size) // 2
    steps = torch.arange(size, dtype=torch.float64) + trim
    position = first + steps * (seen - 1) / (stretched - 1)
    below = position.floor().long().clamp(max=size - 2)
    share = (position - below).unsqueeze(1)
    eye = torch.eye(size, dtype=torch.float64)
    return (1 - share) * eye[below] + share * eye[below + 1]
