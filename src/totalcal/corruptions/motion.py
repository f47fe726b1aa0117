"""Blur along a line, one direction per image, exactly as ImageMagick's motion blur."""

from collections.abc import Iterator
from itertools import pairwise
from math import ceil
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
