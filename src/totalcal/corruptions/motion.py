"""Blur along a line, one direction an image, exactly as ImageMagick's motion blur."""

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

Offsets = NDArray[np.int64]


def directional_blur(images: Tensor, angles: Tensor, radius: float, sigma: float) -> Tensor:
    """Σᵢ wᵢ x(row + ⌈i sin t − ½⌉, column + ⌈i cos t − ½⌉), wᵢ ∝ exp(−i²/2σ²), i ≤ 2⌈radius⌉.

    `images` are bytes [batch, side, side, channels] with edges repeated, `angles` degrees. Images sorted by
    angle share the offsets of a tap in runs, so a tap is a few shifted windows instead of a gather.
    In float64, as the result is cut off.
    """
    batch, side, _, channels = images.shape
    weights = _weights(radius, sigma)
    order = angles.argsort().cpu()
    offsets = _offsets(angles[order], len(weights))
    padded, up, left = _repeat_edges(images[order], offsets)
    blurred = padded.new_zeros(batch, side, side * channels)
    for weight, of_tap in zip(weights, offsets, strict=True):
        for run, down, right in _runs(of_tap):
            shifted = _window(padded, run, up + down, (left + right) * channels, (side, side * channels))
            blurred[run].add_(shifted, alpha=weight)
    return blurred.add_(_HALF_STEP).to(torch.uint8).view_as(images)[order.argsort()]


def _weights(radius: float, sigma: float) -> list[float]:
    taps = np.arange(2 * ceil(radius) + 1)
    weights = np.exp(-0.5 * (taps / sigma) ** 2)
    weights /= weights.sum()
    return [float(weight) for weight in weights if weight > _LIGHTEST]


def _offsets(angles: Tensor, taps: int) -> Offsets:
    """Rows down and columns right, [taps, batch, 2]."""
    radians = np.deg2rad(angles.double().numpy())
    directions = np.stack([np.sin(radians), np.cos(radians)], -1)
    offsets: Offsets = np.ceil(np.arange(taps)[:, None, None] * directions - 0.5).astype(np.int64)
    return offsets


def _repeat_edges(images: Tensor, offsets: Offsets) -> tuple[Tensor, int, int]:
    """Float64 [batch, taller, wider · channels] with room for all offsets; how much above, how much left."""
    batch, side, _, channels = images.shape
    up, left = np.maximum(-offsets.min((0, 1)), 0).tolist()
    down, right = np.maximum(offsets.max((0, 1)), 0).tolist()
    padded = images.new_empty(batch, up + side + down, left + side + right, channels, dtype=torch.float64)
    middle = padded[:, up : up + side]
    middle[:, :, left : left + side] = images
    middle[:, :, :left] = images[:, :, :1]
    middle[:, :, left + side :] = images[:, :, -1:]
    padded[:, :up] = middle[:, :1]
    padded[:, up + side :] = middle[:, -1:]
    return padded.flatten(2), up, left


def _window(padded: Tensor, run: slice, row: int, column: int, size: tuple[int, int]) -> Tensor:
    """padded[run, row : row + size[0], column : column + size[1]]; three slicings cost more than adding."""
    image, line, one = padded.stride()
    start = run.start * image + row * line + column * one
    return padded.as_strided((run.stop - run.start, *size), (image, line, one), start)


def _runs(offsets: Offsets) -> Iterator[tuple[slice, int, int]]:
    """Neighbours with the same offset: which images, and their offset."""
    changes = np.flatnonzero((offsets[1:] != offsets[:-1]).any(1)) + 1
    for first, last in pairwise([0, *changes.tolist(), len(offsets)]):
        down, right = offsets[first].tolist()
        yield slice(first, last), down, right
