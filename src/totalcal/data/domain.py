"""A task: an in-domain set and a panel of sets that a model should find strange, ready as `ArrayData`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from totalcal.data.augmentation import find_augmentation
from totalcal.data.batches import ArrayData, Scaling
from totalcal.data.cache import statistics
from totalcal.data.loading import entry, load, load_with_statistics
from totalcal.data.overlaps import Overlap
from totalcal.data.text import shorten
from totalcal.errors import UnknownNameError

SUBSET_SEED = 0  # a reduced test set is the same one for every model and seed
DataDir = str | Path | None
Inputs = NDArray[Any]
Projection = Callable[[Inputs], Inputs]


@dataclass(frozen=True)
class OutOfDomain:
    """A member of a panel: how its inputs are made, how near it is, which classes it has in common."""

    name: str
    nearness: Literal["near", "far"]
    make: Callable[[DataDir], Inputs] = field(repr=False)
    shared: Overlap = field(default_factory=dict)


@dataclass(frozen=True)
class TaskOptions:
    """How much of the data, and in which form. None takes all, or the default."""

    held_out: int | None = None
    train_limit: int | None = None
    test_limit: int | None = None
    ood_limit: int | None = None
    max_length: int | None = None
    augmentation: str | None = None
    scaling: Scaling | None = None
    panel: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TaskData:
    """What a run needs: choices are made on `held_out`, never on `test` or `ood`."""

    train: ArrayData
    held_out: ArrayData
    test: ArrayData
    ood: Mapping[str, ArrayData]


@dataclass(frozen=True)
class Task:
    """A task by name; `input_shape` is what the backbone sees of one example."""

    name: str
    source: str
    kind: Literal["image", "tokens", "table"]
    input_shape: tuple[int, ...]
    panel: tuple[OutOfDomain, ...] = ()
    projection: Callable[[Inputs], Projection] | None = field(default=None, repr=False)  # fitted on train

    @property
    def num_classes(self) -> int:
        return entry(self.source).num_classes

    def load(self, seed: int = 0, data_dir: DataDir = None, options: TaskOptions | None = None) -> TaskData:
        """All of it scaled by the training split's mean and deviation; `seed` holds out and thins out."""
        chosen = options or TaskOptions()
        train, known = load_with_statistics(self.source, "train", data_dir)
        project = self.projection(train.inputs) if self.projection is not None else None
        figures = known if project is None else statistics(project(train.inputs))
        scaling = chosen.scaling or (Scaling(*figures) if figures.mean else None)

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
            test=prepare(*load(self.source, "test", data_dir)).take(chosen.test_limit, SUBSET_SEED),
            ood={
                member.name: prepare(*_without_class(member.make(data_dir))).take(
                    chosen.ood_limit, SUBSET_SEED
                )
                for member in self.members(chosen.panel)
            },
        )

    def members(self, names: tuple[str, ...] | None = None) -> tuple[OutOfDomain, ...]:
        """The panel, or those of it that are named."""
        known = {member.name: member for member in self.panel}
        for name in names or ():
            if name not in known:
                raise UnknownNameError(f"out-of-domain set of {self.name}", name, known)
        return self.panel if names is None else tuple(known[name] for name in names)


def principal_plane(train: Inputs) -> Projection:
    """The first two principal components of the training rows (appendix B.2)."""
    from sklearn.decomposition import PCA

    projection: Projection = PCA(2).fit(train).transform
    return projection


def _without_class(inputs: Inputs) -> tuple[Inputs, Inputs]:
    return inputs, np.full(len(inputs), -1)  # a stranger belongs to no class
