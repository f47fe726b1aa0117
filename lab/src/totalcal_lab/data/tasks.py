"""The paper's tasks and further ones, by name. A panel begins with the set that the paper used."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from totalcal.data import letters
from totalcal.errors import UnknownNameError
from totalcal_lab.data.domain import DataDir, Inputs, OODSet, Overlap, Task, principal_plane
from totalcal_lab.data.loading import load_set
from totalcal_lab.data.text import shuffle_words

Bytes = NDArray[np.uint8]

# Classes that stand in two sets: a detector that takes them for in-distribution is not wrong. CIFAR-10 and
# CIFAR-100 were made without a class in common; TinyImageNet shares some with either.
CIFAR10_IN_TINY_IMAGENET: Overlap = MappingProxyType(
    {
        "automobile": (
            "n02814533",
            "n03100240",
            "n03670208",
            "n04285008",
        ),  # wagon, convertible, limousine, sports
        "bird": ("n01855672", "n02002724", "n02056570", "n02058221"),  # goose, stork, king penguin, albatross
        "cat": ("n02123045", "n02123394", "n02124075"),  # tabby, Persian, Egyptian
        "dog": ("n02085620", "n02094433", "n02099601", "n02099712", "n02106662", "n02113799"),  # six breeds
        "frog": ("n01641577", "n01644900"),  # bullfrog, tailed frog
        "ship": ("n03662601",),  # lifeboat
        "truck": ("n03796401",),  # moving van
    }
)

CIFAR100_IN_TINY_IMAGENET: Overlap = MappingProxyType(
    {
        "aquarium_fish": ("n01443537",),  # goldfish
        "bear": ("n02132136",),  # brown bear
        "bee": ("n02206856",),
        "beetle": ("n02165456",),  # ladybird
        "bottle": ("n02823428", "n03983396"),  # beer bottle, pop bottle
        "bridge": ("n04311004", "n04366367", "n04532670"),  # steel arch, suspension, viaduct
        "bus": ("n04146614", "n04487081"),  # school bus, trolleybus
        "butterfly": ("n02279972", "n02281406"),  # monarch, sulphur
        "camel": ("n02437312",),  # Arabian camel
        "cattle": ("n02403003",),  # ox
        "chair": ("n04099969",),  # rocking chair
        "chimpanzee": ("n02481823",),
        "cockroach": ("n02233338",),
        "elephant": ("n02504458",),  # African elephant
        "keyboard": ("n03085013",),  # computer keyboard
        "lawn_mower": ("n03649909",),
        "lion": ("n02129165",),
        "lobster": ("n01983481", "n01984695"),  # American, spiny
        "mountain": ("n09193705",),  # alp
        "mushroom": ("n07734744",),
        "orange": ("n07747607",),
        "plate": ("n07579787",),
        "sea": ("n09428293",),  # seashore
        "snail": ("n01944390",),
        "snake": ("n01742172",),  # boa constrictor
        "spider": ("n01774384", "n01774750"),  # black widow, tarantula
        "sweet_pepper": ("n07720875",),  # bell pepper
        "table": ("n03201208",),  # dining table
        "telephone": ("n03902125",),  # pay-phone
        "tractor": ("n04465501",),
        "train": ("n02917067",),  # bullet train
    }
)


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


def _tiny_imagenet(way: str, shared: Overlap) -> OODSet:
    def make(data_dir: DataDir) -> Inputs:
        return RESIZINGS[way](_test_inputs("tiny-imagenet-200", data_dir))

    return OODSet(f"tiny-imagenet-{way}", "near", make, shared)


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
        (
            _whole("svhn", "far"),
            _whole("cifar-100", "near"),
            _tiny_imagenet("mean", CIFAR10_IN_TINY_IMAGENET),
        ),
        (_MNIST,),
    ),
    # Table 2 names CIFAR-100, appendix B.3 CIFAR-10: both
    Task("svhn", "svhn", "image", _COLOUR, (_whole("cifar-100", "far"), _whole("cifar-10", "far"))),
    Task(
        "cifar100",
        "cifar-100",
        "image",
        _COLOUR,
        (
            *(_tiny_imagenet(way, CIFAR100_IN_TINY_IMAGENET) for way in RESIZINGS),
            _whole("cifar-10", "near"),
            _whole("svhn", "far"),
        ),
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
