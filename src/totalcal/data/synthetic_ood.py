"""OOD sets that anybody can make from the test images of a task, by seed: nothing to fetch.

Far: uniform noise, constant images, inverted images, images whose pixels are shuffled. Near: images rotated
by 90° and images upside down, which keep every pixel and every texture, and only the pose is new.
"""

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from totalcal.errors import ShapeError

SEED = 0
Images = NDArray[Any]  # uint8 [n, height, width(, channels)]


class SyntheticOOD(NamedTuple):
    """How a set is made of in-distribution images, and how near it is to them."""

    nearness: Literal["near", "far"]
    make: Callable[[Images, np.random.Generator], Images]


def synthetic_ood(name: str, images: Images, seed: int = SEED) -> Images:
    """The OOD set `name`, with as many images as are given and of the same shape.

    Args:
        name: One of `SYNTHETIC_OOD`.
        images: In-distribution images, uint8 [n, height, width] or [n, height, width, channels].
        seed: Of what is drawn; each set has a stream of its own.

    Returns:
        uint8 images of the shape of `images`.

    Example:
        >>> synthetic_ood("inverted", np.array([[[0, 200]]], dtype=np.uint8)).tolist()
        [[[255, 55]]]
    """
    draw = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return np.ascontiguousarray(SYNTHETIC_OOD[name].make(images, draw))


def _uniform_noise(images: Images, draw: np.random.Generator) -> Images:
    """Every value uniform in 0 … 255."""
    return draw.integers(256, size=images.shape, dtype=np.uint8)


def _constant(images: Images, draw: np.random.Generator) -> Images:
    """One level per channel, uniform in 0 … 255, for all pixels of an image."""
    levels = draw.integers(256, size=(len(images), 1, 1, *images.shape[3:]), dtype=np.uint8)
    return np.broadcast_to(levels, images.shape)


def _inverted(images: Images, draw: np.random.Generator) -> Images:
    return 255 - images


def _shuffled_pixels(images: Images, draw: np.random.Generator) -> Images:
    """Each image with its pixels in an order of its own; the channels of a pixel stay together."""
    pixels = images.reshape(len(images), -1, *images.shape[3:])
    order = draw.random(pixels.shape[:2], dtype=np.float32).argsort(axis=1)
    return pixels[np.arange(len(images))[:, None], order].reshape(images.shape)


def _rotated_90(images: Images, draw: np.random.Generator) -> Images:
    """Anticlockwise."""
    if images.shape[1] != images.shape[2]:
        raise ShapeError(
            f"rotated-90 needs square images, not {images.shape[1:3]}: leave it out of the panel."
        )
    return np.rot90(images, axes=(1, 2))


def _upside_down(images: Images, draw: np.random.Generator) -> Images:
    return images[:, ::-1]


SYNTHETIC_OOD: Mapping[str, SyntheticOOD] = MappingProxyType(
    {
        "uniform-noise": SyntheticOOD("far", _uniform_noise),
        "constant": SyntheticOOD("far", _constant),
        "inverted": SyntheticOOD("far", _inverted),
        "shuffled-pixels": SyntheticOOD("far", _shuffled_pixels),
        "rotated-90": SyntheticOOD("near", _rotated_90),
        "upside-down": SyntheticOOD("near", _upside_down),
    }
)
