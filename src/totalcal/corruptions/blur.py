"""Blur: out of focus, behind glass, in motion, in a zoom, or plain Gaussian."""

from collections import Counter
from functools import lru_cache
from math import ceil
from typing import Final

import numpy as np
import torch
from torch import Tensor

from totalcal.corruptions import kernels
from totalcal.corruptions.blocks import Draws, from_planes, to_planes
from totalcal.corruptions.kernels import smooth_in_order
from totalcal.corruptions.motion import directional_blur

_ROUNDING: Final = (
    2e-5  # of 255 in float32: no change at all may come out as far below zero, times the weights
)


def gaussian_blur(images: Tensor, draws: Draws, sigma: float) -> Tensor:
    return _smooth(images, sigma)


def _smooth(images: Tensor, sigma: float) -> Tensor:
    """⌊A x Aᵀ⌋ as x + ⌊A x Aᵀ − x⌋, where with A = 1 + D the change is D (x + x Dᵀ) + x Dᵀ.

    x is whole, so only the change is cut off, and it is small enough for float32 to see the farthest taps:
    they weigh 10⁻⁶, and tip the many values that would else be whole levels.
    """
    down, across = _gaussian_change(images.shape[1], sigma)
    x = images.flatten(2).float()  # [batch, side, side · 3]
    sideways = torch.full_like(x, _ROUNDING * float(down.abs().max()))  # a slack that D (…) does not change
    lines = sideways.view(-1, x.shape[2])
    for columns, reach, part in across:
        lines[:, columns].addmm_(x.view_as(lines)[:, reach], part.to(x))
    change = sideways.baddbmm_(down.to(x).expand(len(x), -1, -1), x.add_(sideways))
    wrapped = change.floor_().to(torch.int16).to(torch.uint8)  # modulo 256, as is the sum: together exact
    return wrapped.view_as(images).add_(images)


@lru_cache(maxsize=8)
def _gaussian_change(side: int, sigma: float) -> tuple[Tensor, list[tuple[slice, slice, Tensor]]]:
    """D for rows, and Dᵀ for columns of three interleaved channels as (columns, reach, Dᵀ of these).

    In two halves: no column reaches farther than 4σ, so half of them need little more than half of the image.
    """
    change = kernels.gaussian(side, sigma)[0] - torch.eye(side, dtype=torch.float64)
    across = torch.kron(change.T.contiguous(), torch.eye(3)).float()
    middle, reach = 3 * (side // 2), 3 * int(4 * sigma + 0.5)
    left, right = slice(0, middle), slice(middle, 3 * side)
    from_left, from_right = slice(0, middle + reach), slice(max(0, middle - reach), 3 * side)
    halves = [(left, from_left), (right, from_right)]
    return change.float(), [(half, wider, across[wider, half].contiguous()) for half, wider in halves]


def defocus_blur(images: Tensor, draws: Draws, radius: float, softness: float) -> Tensor:
    """Correlation with a disk whose edge is softened by a 3 × 3 Gaussian."""
    return kernels.correlate(images, _disk(radius, softness))


@lru_cache(maxsize=8)
def _disk(radius: float, softness: float) -> list[kernels.Ring]:
    offsets = torch.arange(-ceil(radius) - 1, ceil(radius) + 2)  # one pixel of margin for the softening
    disk = (offsets**2 + offsets[:, None] ** 2 <= radius**2).double()
    soften = kernels.band(kernels.gaussian_taps(softness, 1), len(offsets), kernels.nearest)
    return kernels.rings(soften @ (disk / disk.sum()) @ soften.T)


def glass_blur(images: Tensor, draws: Draws, sigma: float, passes: float) -> Tensor:
    """Smooth, let pixels be overwritten by a neighbour above or to the left, smooth again.

    The original means to swap neighbours, one after the other; what it does is a copy, because its second
    assignment reads what the first has overwritten. As it walks upwards and all sources lie above or left, no
    copy sees another of the same pass: all can be made at once. The first two rows and columns stay.
    """
    side = images.shape[1]
    shards = smooth_in_order(images, sigma)
    for _ in range(int(passes)):
        left, up = (draws.coins(side - 2, side - 2).unsqueeze(-1) for _ in range(2))
        here = torch.where(left, shards[:, 2:, 1:-1], shards[:, 2:, 2:])
        above = torch.where(left, shards[:, 1:-1, 1:-1], shards[:, 1:-1, 2:])
        shards[:, 2:, 2:] = torch.where(up, above, here)
    return smooth_in_order(shards, sigma)


def motion_blur(images: Tensor, draws: Draws, radius: float, sigma: float) -> Tensor:
    """Within 45° of the horizontal."""
    return directional_blur(images, draws.uniform(low=-45, high=45).cpu(), radius, sigma)


def zoom_blur(images: Tensor, draws: Draws, factors: float) -> Tensor:
    """The mean of the image and of its zooms by 1.00, 1.01, …: the image itself counts twice."""
    return from_planes(kernels.apply(to_planes(images), *_zooms(images.shape[1], int(factors))))


@lru_cache(maxsize=8)
def _zooms(side: int, factors: int) -> tuple[Tensor, Tensor]:
    """Neighbouring factors round to the same geometry: the distinct ones, and how often each comes."""
    steps = np.arange(1, 2, 0.01)[:factors]  # how NumPy rounds its steps decides what 1.25 becomes
    geometries = Counter(kernels.zoom_geometry(side, float(factor)) for factor in steps)
    geometries[side, side] += 1
    columns = torch.stack([kernels.zoom(side, *geometry) for geometry in geometries])
    times = torch.tensor(list(geometries.values()), dtype=torch.float64)
    return columns * (times / (factors + 1)).view(-1, 1, 1), columns
