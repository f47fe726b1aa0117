"""The paper's tasks and ours, by name. A panel begins with the set that the paper used."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal

from totalcal.data.domain import DataDir, Inputs, OODSet, Task, principal_plane
from totalcal.data.letters import letters
from totalcal.data.loading import load
from totalcal.data.overlaps import CIFAR10_IN_TINY_IMAGENET, CIFAR100_IN_TINY_IMAGENET, Overlap
from totalcal.data.resizing import RESIZINGS
from totalcal.data.text import shuffle_words
from totalcal.errors import UnknownNameError


def _test_inputs(name: str, data_dir: DataDir) -> Inputs:
    return load(name, "test", data_dir).inputs


def _whole(name: str, nearness: Literal["near", "far"]) -> OODSet:
    return OODSet(name, nearness, partial(_test_inputs, name))


def _letters(size: int, count: int) -> OODSet:
    return OODSet("letters", "near" if size == 8 else "far", lambda _: letters(size, count).inputs)


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


def task(name: str) -> Task:
    """A task by name, or an error that suggests the nearest one."""
    if name not in TASKS:
        raise UnknownNameError("task", name, TASKS)
    return TASKS[name]
