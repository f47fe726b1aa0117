"""The four blurs: defocus, glass, motion, zoom."""

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from totalcal_lab.corruptions import kernels
from totalcal_lab.corruptions.kernels import BlockDraws, from_planes, smooth_as_scipy, to_planes

_LIGHTEST: Final = 1e-9  # a lighter tap moves no result by a 16-bit step
_HALF_STEP: Final = (
    0.5 / 257
)  # results are rounded to 16 bits, then cut to 8: ⌊⌊257 v + ½⌋ / 257⌋ = ⌊v + ½/257⌋
_DOUBT: Final = 2e-4  # levels; more than float32 can be wrong by, less than half a 16-bit step

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def directional_blur(images: Tensor, angles: Tensor, radius: float, sigma: float) -> Tensor:
    """Σᵢ wᵢ x(row + ⌈i sin t − ½⌉, column + ⌈i cos t − ½⌉), wᵢ ∝ exp(−i²/2σ²), i ≤ 2⌈radius⌉.

    `images` are bytes [batch, side, side, channels] with edges repeated, `angles` degrees. Images sorted by
    angle share the offsets of a tap in runs, so a tap is a few shifted windows instead of a gather.
    """
    angles, order = angles.cpu().sort()
    order = order.to(images.device)
    sorted_images, weights = images.index_select(0, order), _weights(radius, sigma)
    offsets = _offsets(angles, len(weights))
    blurred = _sum_of_shifts(sorted_images, offsets, weights).add_(_HALF_STEP)
    _settle(blurred, sorted_images, offsets, weights)
    return blurred.to(torch.uint8).index_select(0, order.argsort())


def _weights(radius: float, sigma: float) -> Floats:
    taps = np.arange(2 * ceil(radius) + 1)
    weights = np.exp(-0.5 * (taps / sigma) ** 2)
    weights /= weights.sum()
    return weights[weights > _LIGHTEST]


def _offsets(angles: Tensor, taps: int) -> Integers:
    """Rows down and columns right, [taps, batch, 2]."""
    radians = np.deg2rad(angles.double().numpy())
    directions = np.stack([np.sin(radians), np.cos(radians)], -1)
    offsets: Integers = np.ceil(np.arange(taps)[:, None, None] * directions - 0.5).astype(np.int64)
    return offsets


def _sum_of_shifts(images: Tensor, offsets: Integers, weights: Floats) -> Tensor:
    padded, corner = _repeat_edges(images, offsets)
    image, row, column, _ = padded.stride()
    size = (images.shape[1], images.shape[2] * images.shape[3])
    blurred = padded.new_zeros(len(images), *size)
    for weight, places in zip(weights.tolist(), (offsets + corner) @ [row, column], strict=True):
        for first, last in _runs(places):
            start = first * image + int(places[first])
            shifted = padded.as_strided((last - first, *size), (image, row, 1), start)
            blurred[first:last].add_(shifted, alpha=weight)
    return blurred.view(images.shape)


def _repeat_edges(images: Tensor, offsets: Integers) -> tuple[Tensor, Integers]:
    """Images in float32 with room for all offsets, and where in it their corner lies."""
    batch, side, _, channels = images.shape
    up, left = corner = np.maximum(-offsets.min((0, 1)), 0)
    down, right = np.maximum(offsets.max((0, 1)), 0)
    padded = images.new_empty(batch, up + side + down, left + side + right, channels, dtype=torch.float32)
    middle = padded[:, up : up + side]
    middle[:, :, left : left + side] = images
    middle[:, :, :left] = images[:, :, :1]
    middle[:, :, left + side :] = images[:, :, -1:]
    padded[:, :up] = middle[:, :1]
    padded[:, up + side :] = middle[:, -1:]
    return padded, corner


def _runs(values: Integers) -> Iterator[tuple[int, int]]:
    """First and last + 1 of neighbours that are equal.

    >>> list(_runs(np.array([3, 3, 5])))
    [(0, 2), (2, 3)]
    """
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return pairwise([0, *changes.tolist(), len(values)])


def _settle(blurred: Tensor, images: Tensor, offsets: Integers, weights: Floats) -> None:
    """In place: where float32 leaves the side of a whole level in doubt, let float64 decide."""
    doubtful = (blurred + _DOUBT).frac_() < 2 * _DOUBT
    image, row, column, channel = places = doubtful.nonzero(as_tuple=True)
    last = images.shape[1] - 1
    down, right = torch.from_numpy(offsets).to(images.device)[:, image].unbind(-1)  # [taps, doubtful values]
    taps = images[image, (row + down).clamp_(0, last), (column + right).clamp_(0, last), channel]
    exact = torch.from_numpy(weights).to(images.device) @ taps.double()
    blurred[places] = (exact + _HALF_STEP).floor_().float()


_ROUNDING: Final = (
    2e-5  # of 255 in float32: no change at all may come out as far below zero, times the weights
)


def gaussian_blur(images: Tensor, draws: BlockDraws, sigma: float) -> Tensor:
    """A Gaussian blur; sigma is in pixels."""
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


def defocus_blur(images: Tensor, draws: BlockDraws, radius: float, softness: float) -> Tensor:
    """Correlation with a disk whose edge is softened by a 3 × 3 Gaussian."""
    return kernels.correlate(images, _disk(radius, softness))


@lru_cache(maxsize=8)
def _disk(radius: float, softness: float) -> list[kernels.Ring]:
    offsets = torch.arange(-ceil(radius) - 1, ceil(radius) + 2)  # one pixel of margin for the softening
    disk = (offsets**2 + offsets[:, None] ** 2 <= radius**2).double()
    soften = kernels.band(kernels.gaussian_taps(softness, 1), len(offsets), kernels.nearest)
    return kernels.rings(soften @ (disk / disk.sum()) @ soften.T)


def glass_blur(images: Tensor, draws: BlockDraws, sigma: float, passes: float) -> Tensor:
    """Smooth, let pixels be overwritten by a neighbour above or to the left, smooth again.

    The original means to swap neighbours, one after the other; what it does is a copy, because its second
    assignment reads what the first has overwritten. As it walks upwards and all sources lie above or left, no
    copy sees another of the same pass: all can be made at once. The first two rows and columns stay.
    """
    side = images.shape[1]
    shards = smooth_as_scipy(images, sigma)
    for _ in range(int(passes)):
        left, up = (draws.coins(side - 2, side - 2).unsqueeze(-1) for _ in range(2))
        here = torch.where(left, shards[:, 2:, 1:-1], shards[:, 2:, 2:])
        above = torch.where(left, shards[:, 1:-1, 1:-1], shards[:, 1:-1, 2:])
        shards[:, 2:, 2:] = torch.where(up, above, here)
    return smooth_as_scipy(shards, sigma)


def motion_blur(images: Tensor, draws: BlockDraws, radius: float, sigma: float) -> Tensor:
    """Within 45° of the horizontal."""
    return directional_blur(images, draws.uniform(low=-45, high=45).cpu(), radius, sigma)


def zoom_blur(images: Tensor, draws: BlockDraws, factors: float) -> Tensor:
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
