"""The paper's tasks and further ones, by name. A panel begins with the set that the paper used."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from totalcal.data import letters
from totalcal.errors import UnknownNameError
from totalcal_lab.data.domain import DataDir, Inputs, OODSet, Task, principal_plane
from totalcal_lab.data.loading import load_set
from totalcal_lab.data.text import shuffle_words

Bytes = NDArray[np.uint8]


# Three ways from 64 × 64 to 32 × 32. Each leaves other traces, so a detector is shown all three.
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


def _test_inputs(name: str, data_dir: DataDir) -> Inputs:
    return load_set(name, "test", data_dir).inputs


def _whole(name: str, nearness: Literal["near", "far"]) -> OODSet:
    return OODSet(name, nearness, partial(_test_inputs, name))


def in_colour(images: Bytes) -> Bytes:
    """Grey images of 28 × 28 as colour images of 32 × 32, with a black margin: no pixel is interpolated.

    >>> in_colour(np.full((1, 28, 28), 9, dtype=np.uint8)).shape
    (1, 32, 32, 3)
    """
    padded = np.pad(images, ((0, 0), (2, 2), (2, 2)))
    return np.repeat(padded[..., None], 3, axis=-1)


_MNIST = OODSet("mnist", "far", lambda data_dir: in_colour(_test_inputs("mnist", data_dir)))


@cache
def _drawn_letters(size: int, count: int) -> Inputs:
    """Drawn once per process: a thousand of them take longer than a small run of a grid."""
    return letters(size, count).inputs


def _letters(size: int, count: int) -> OODSet:
    return OODSet("letters", "near" if size == 8 else "far", lambda _: _drawn_letters(size, count).copy())


def _tiny_imagenet(way: str) -> OODSet:
    def make(data_dir: DataDir) -> Inputs:
        return RESIZINGS[way](_test_inputs("tiny-imagenet-200", data_dir))

    return OODSet(f"tiny-imagenet-{way}", "near", make)


def _shuffled_words(data_dir: DataDir) -> Inputs:
    return shuffle_words(_test_inputs("imdb", data_dir), seed=0)


_COLOUR = (3, 32, 32)
_TASKS = (
    Task(
        "fashion",
        "fashion-mnist",
        "image",
        (1, 28, 28),
        (_whole("mnist", "far"), _whole("kmnist", "far"), _letters(28, 10_000)),
    ),
    Task(
        "cifar10",
        "cifar-10",
        "image",
        _COLOUR,
        (_whole("svhn", "far"), _whole("cifar-100", "near"), _tiny_imagenet("mean")),
        (_MNIST,),
    ),
    # Table 2 names CIFAR-100, appendix B.3 CIFAR-10: both
    Task("svhn", "svhn", "image", _COLOUR, (_whole("cifar-100", "far"), _whole("cifar-10", "far"))),
    Task(
        "cifar100",
        "cifar-100",
        "image",
        _COLOUR,
        (*(_tiny_imagenet(way) for way in RESIZINGS), _whole("cifar-10", "near"), _whole("svhn", "far")),
        (_MNIST,),
    ),
    Task(
        "imdb",
        "imdb",
        "tokens",
        (500,),
        (_whole("random-tokens", "far"), OODSet("shuffled-words", "near", _shuffled_words)),
    ),
    Task("digits", "digits", "image", (1, 8, 8), (_letters(8, 1_000),)),
    Task("iris", "iris", "table", (2,), projection=principal_plane),
    Task("gaussians", "gaussians", "table", (2,)),
)

TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in _TASKS})
"""Every task by name: a data set to learn, and its OOD sets."""


def task(name: str) -> Task:
    """A task by name, or an error that suggests the nearest one."""
    if name not in TASKS:
        raise UnknownNameError("task", name, TASKS)
    return TASKS[name]
