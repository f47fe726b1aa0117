"""Three ways from 64 × 64 to 32 × 32. Each leaves other traces, so a detector is shown all three."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def block_mean(images: Bytes) -> Bytes:
    """The mean of each 2 × 2 block, rounded: smooth.

    >>> block_mean(np.array([[[[0], [1]], [[2], [3]]]], dtype=np.uint8)).ravel()
    array([2], dtype=uint8)
    """
    count, height, width, channels = images.shape
    blocks = images.reshape(count, height // 2, 2, width // 2, 2, channels)
    rounded: Bytes = ((blocks.sum(axis=(2, 4), dtype=np.uint16) + 2) // 4).astype(np.uint8)
    return rounded


def subsample(images: Bytes) -> Bytes:
    """Every second pixel: sharp and aliased."""
    return np.ascontiguousarray(images[:, ::2, ::2])


def centre_crop(images: Bytes) -> Bytes:
    """The middle half: as sharp as it was, but things are large and cut off."""
    height, width = images.shape[1:3]
    top, left = height // 4, width // 4
    return np.ascontiguousarray(images[:, top : top + height // 2, left : left + width // 2])


RESIZINGS: Mapping[str, Callable[[Bytes], Bytes]] = MappingProxyType(
    {"mean": block_mean, "subsample": subsample, "crop": centre_crop}
)
