"""A task: an in-distribution set and a panel of OOD sets, ready as `ArrayData`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from totalcal.data import Arrays
from totalcal.errors import InputError, UnknownNameError
from totalcal_lab.data.arrays import ArrayData, Scaling, find_augmentation, statistics
from totalcal_lab.data.loading import entry, load_set, load_with_statistics
from totalcal_lab.data.synthetic import SYNTHETIC_OOD, synthetic_ood
from totalcal_lab.data.text import shorten

SUBSET_SEED = 0  # a reduced test set is the same one for every model and seed
LEFT_OUT = "left-out"  # the OOD set of the classes that were left out of training
DataDir = str | Path | None
Inputs = NDArray[Any]
Projection = Callable[[Inputs], Inputs]


@dataclass(frozen=True)
class OODSet:
    """A member of a panel: how its inputs are made, how near it is."""

    name: str
    nearness: Literal["near", "far"]
    make: Callable[[DataDir], Inputs] = field(repr=False)


@dataclass(frozen=True)
class TaskOptions:
    """How much of the data, and in which form. None takes all, or the default.

    Args:
        held_out: Rows of the training split that are held out for choices.
        train_limit: Rows left to train on, drawn by seed.
        test_limit: Rows of the test split.
        ood_limit: Rows of each OOD set.
        max_length: Words after which a text is cut.
        augmentation: Of the training rows, by name.
        scaling: In place of the training split's own mean and deviation.
        panel: Names of OOD sets: of the task's own panel, of `SYNTHETIC_OOD` for images, or `left-out`.
        left_out: Classes, by name or number, that are removed from training, held-out and test rows; the rest
            are numbered anew without gaps. Their test rows are the OOD set `left-out`.
    """

    held_out: int | None = None
    train_limit: int | None = None
    test_limit: int | None = None
    ood_limit: int | None = None
    max_length: int | None = None
    augmentation: str | None = None
    scaling: Scaling | None = None
    panel: tuple[str, ...] | None = None
    left_out: tuple[str | int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("held_out", "train_limit", "test_limit", "ood_limit", "max_length"):
            least = 0 if name == "held_out" else 1
            self._check(name, "a number of rows or words, or None for all", partial(_is_limit, least=least))
        self._check("augmentation", "a name, or None", lambda name: isinstance(name, str))
        self._check("panel", "a list of names, or None", _are_names)
        self._check("left_out", "a list of names or numbers, or None", lambda v: isinstance(v, list | tuple))

    def _check(self, name: str, expected: str, fits: Callable[[Any], bool]) -> None:
        value = getattr(self, name)
        if value is not None and not fits(value):
            raise InputError(f"{name} is {expected}, not {value!r:.40}.")


def _is_limit(value: Any, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


@dataclass(frozen=True)
class TaskData:
    """What a run needs: choices are made on `held_out`, never on `test` or `ood`."""

    train: ArrayData
    held_out: ArrayData
    test: ArrayData
    ood: Mapping[str, ArrayData]


@dataclass(frozen=True)
class Task:
    """A task by name; `input_shape` is what the backbone sees of one example.

    `panel` are the OOD sets of every run; `further` are those that other benchmarks have, taken by name.
    """

    name: str
    source: str
    kind: Literal["image", "tokens", "table"]
    input_shape: tuple[int, ...]
    panel: tuple[OODSet, ...] = ()
    further: tuple[OODSet, ...] = ()
    projection: Callable[[Inputs], Projection] | None = field(default=None, repr=False)  # fitted on train

    @property
    def num_classes(self) -> int:
        return entry(self.source).num_classes

    def classes(self, left_out: Sequence[str | int] | None = None) -> tuple[str, ...]:
        """The names of the classes in the order of their labels, without those that are left out."""
        names = entry(self.source).classes or tuple(map(str, range(self.num_classes)))
        return tuple(names[label] for label in self._kept(left_out))

    def load(self, seed: int = 0, data_dir: DataDir = None, options: TaskOptions | None = None) -> TaskData:
        """The data of the task, all of it scaled by the training split's mean and deviation.

        Args:
            seed: Decides what is held out, and which rows a `train_limit` keeps.
            data_dir: A folder that holds the sets; else they are looked for as `load_set` does.
            options: How much of the data, which OOD sets, which classes are left out.

        Returns:
            Training, held-out and test rows, and one `ArrayData` per OOD set.

        Raises:
            UnknownNameError: For an OOD set or a class that the task does not have.
            DataError: If a set cannot be read; SourceError if it cannot be had.

        Example:
            >>> from totalcal_lab.data.tasks import task
            >>> data = task("digits").load(options=TaskOptions(panel=("letters", "inverted")))
            >>> len(data.train), len(data.test), {name: len(rows) for name, rows in data.ood.items()}
            (1168, 500, {'letters': 1000, 'inverted': 500})
        """
        chosen = options or TaskOptions()
        kept = self._kept(chosen.left_out)
        whole, known = load_with_statistics(self.source, "train", data_dir)
        train = _only(whole, kept) if chosen.left_out else whole
        project = self.projection(train.inputs) if self.projection is not None else None
        if project is not None or chosen.left_out:
            known = statistics(train.inputs if project is None else project(train.inputs))
        scaling = chosen.scaling or (Scaling(*known) if known.mean else None)

        def prepare(inputs: Inputs, labels: Inputs) -> ArrayData:
            shown = inputs if project is None else project(inputs)
            if self.kind == "tokens" and chosen.max_length is not None:
                shown = shorten(shown, chosen.max_length)
            return ArrayData.from_arrays(shown, labels, scaling)

        rest, held_out = prepare(*train).hold_out(seed, chosen.held_out)
        return TaskData(
            train=replace(
                rest.take(chosen.train_limit, seed), augmentation=find_augmentation(chosen.augmentation)
            ),
            held_out=held_out,
            test=prepare(*self._test(kept, data_dir)).take(chosen.test_limit, SUBSET_SEED),
            ood={
                member.name: prepare(*_without_class(member.make(data_dir))).take(
                    chosen.ood_limit, SUBSET_SEED
                )
                for member in self.members(chosen.panel, chosen.left_out)
            },
        )

    def members(
        self, names: tuple[str, ...] | None = None, left_out: Sequence[str | int] | None = None
    ) -> tuple[OODSet, ...]:
        """The OOD sets that are named; the panel, and the classes left out if any are, where none is."""
        kept = self._kept(left_out)
        own = self.panel
        if left_out:
            others = tuple(label for label in range(self.num_classes) if label not in kept)
            own = (*own, OODSet(LEFT_OUT, "near", lambda data_dir: self._test(others, data_dir).inputs))
        known = {member.name: member for member in (*own, *self.further, *self._synthetic(kept))}
        for name in names or ():
            if name not in known:
                raise UnknownNameError(f"OOD set of {self.name}", name, known)
        return own if names is None else tuple(known[name] for name in names)

    def _synthetic(self, kept: tuple[int, ...]) -> tuple[OODSet, ...]:
        def make(name: str, data_dir: DataDir) -> Inputs:
            return synthetic_ood(name, self._test(kept, data_dir).inputs)

        if self.kind != "image":
            return ()
        return tuple(OODSet(name, made.nearness, partial(make, name)) for name, made in SYNTHETIC_OOD.items())

    def _test(self, kept: tuple[int, ...], data_dir: DataDir) -> Arrays:
        arrays = load_set(self.source, "test", data_dir)
        return arrays if len(kept) == self.num_classes else _only(arrays, kept)

    def _kept(self, left_out: Sequence[str | int] | None) -> tuple[int, ...]:
        """The labels that stay, in order."""
        names = entry(self.source).classes
        numbers = [names.index(each) if each in names else each for each in left_out or ()]
        for number in numbers:
            if not isinstance(number, int) or not 0 <= number < self.num_classes:
                known = names or tuple(map(str, range(self.num_classes)))
                raise UnknownNameError(f"class of {self.source}", str(number), known)
        kept = tuple(label for label in range(self.num_classes) if label not in numbers)
        if len(kept) < 2:
            raise InputError(f"{self.name} without {left_out} has {len(kept)} classes: leave at least two.")
        return kept


def principal_plane(train: Inputs) -> Projection:
    """The first two principal components of the training rows (appendix B.2)."""
    from sklearn.decomposition import PCA

    projection: Projection = PCA(2).fit(train).transform
    return projection


def _only(arrays: Arrays, kept: tuple[int, ...]) -> Arrays:
    """The rows of some classes, which are numbered anew in their order.

    >>> _only(Arrays(np.array([7, 8, 9]), np.array([0, 1, 2])), (0, 2))
    Arrays(inputs=array([7, 9]), labels=array([0, 1]))
    """
    rows = np.isin(arrays.labels, kept)
    return Arrays(arrays.inputs[rows], np.searchsorted(kept, arrays.labels[rows]))


def _without_class(inputs: Inputs) -> tuple[Inputs, Inputs]:
    return inputs, np.full(len(inputs), -1)  # an OOD input belongs to no class
