"""Where the batches of a run come from: tensors, a data set, a DataLoader, or anything with `batches`."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset

from totalcal.errors import InputError
from totalcal.inputs import blocks, labelled, taken, tensors
from totalcal.types import Batch


@runtime_checkable
class Source(Protocol):
    """Labelled rows that come in batches, in an order drawn from the generator, or in their own without."""

    def __len__(self) -> int:
        """The number of rows per epoch."""

    def batches(
        self, batch_size: int, generator: torch.Generator | None = None
    ) -> Iterable[tuple[Any, Tensor]]:
        """The rows of one epoch."""


Data: TypeAlias = Source | tuple[Any, ...] | Mapping[str, Any] | Dataset[Any] | DataLoader[Any] | list[Any]
"""Inputs may be of any kind that `totalcal.inputs` knows, and labels come by its conventions."""


class TensorSource:
    """Rows held in memory: a batch is an indexed copy, which takes no worker and no collation.

    With `weights`, an epoch has as many rows, drawn with replacement in proportion to them.
    """

    def __init__(self, inputs: Any, labels: Any, weights: Tensor | None = None) -> None:
        self.inputs, self.labels = labelled_batch((inputs, labels))
        self.weights = weights

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
        if self.weights is not None:
            order = torch.multinomial(self.weights, len(self), replacement=True, generator=generator)
        elif generator is None:
            yield from map(Batch, blocks(self.inputs, batch_size), self.labels.split(batch_size))
            return
        else:
            order = torch.randperm(len(self), generator=generator)
        for rows in order.split(batch_size):
            yield Batch(taken(self.inputs, rows), self.labels[rows])


class DatasetSource:
    """A data set of torch; an iterable one comes in its own order, and is read once to be counted."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset
        self.is_stream = isinstance(dataset, IterableDataset)
        self._rows = rows_per_epoch(DataLoader(dataset, 256)) if self.is_stream else None

    def __len__(self) -> int:
        return len(self.dataset) if self._rows is None else self._rows  # type: ignore[arg-type]

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> Iterable[Any]:
        if self.is_stream or generator is None:
            return DataLoader(self.dataset, batch_size)
        return DataLoader(self.dataset, batch_size, shuffle=True, generator=generator)


class LoaderSource:
    """A user's DataLoader, with its own batch size and order.

    Its length is the number of rows that its sampler gives per epoch. Every generator that the loader and its
    samplers hold is seeded for an epoch, and after it is what it was; workers start anew in each epoch. So a
    run can be repeated and resumed, and the user's loader is left as it was.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self._rows = rows_per_epoch(loader)

    def __len__(self) -> int:
        return self._rows

    @property
    def steps(self) -> int:
        size = self.loader.batch_size or 1
        return len(self.loader) if _has_length(self.loader) else -(-self._rows // size)

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> Iterable[Any]:
        seed = 0 if generator is None else generator.initial_seed()
        batches = self.loader.batch_sampler
        owners = (self.loader, self.loader.sampler, batches, getattr(batches, "sampler", None))
        own_ones = [getattr(owner, "generator", None) for owner in owners]
        held = {own: own.get_state() for own in own_ones if isinstance(own, torch.Generator)}
        for own in held:
            own.manual_seed(seed)
        return _restoring(iter(self._with_new_workers()), held)

    def _with_new_workers(self) -> DataLoader[Any]:
        """Workers that persist would carry their generators into the next epoch."""
        given = self.loader
        if not given.persistent_workers or type(given) is not DataLoader:
            return given
        batches: dict[str, Any] = {"batch_sampler": given.batch_sampler}
        if given.batch_sampler is None:
            batches = {"batch_size": None, "sampler": given.sampler}
        return DataLoader(
            given.dataset,
            **batches,
            num_workers=given.num_workers,
            collate_fn=given.collate_fn,
            pin_memory=given.pin_memory,
            timeout=given.timeout,
            worker_init_fn=given.worker_init_fn,
            multiprocessing_context=given.multiprocessing_context,
            generator=given.generator,
            prefetch_factor=given.prefetch_factor,
        )


def _restoring(batches: Iterator[Any], held: Mapping[torch.Generator, Tensor]) -> Iterator[Any]:
    """The batches; generators get their state back when they end, or nobody wants more of them."""
    try:
        yield from batches
    finally:
        for generator, state in held.items():
            generator.set_state(state)


class BatchesSource:
    """A list of batches."""

    def __init__(self, batches: list[Any]) -> None:
        self._batches = [labelled_batch(batch) for batch in batches]
        self.steps = len(batches)

    def __len__(self) -> int:
        return sum(len(batch.labels) for batch in self._batches)

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> Iterable[Batch]:
        return iter(self._batches)


def as_source(data: Data) -> Source:
    """Any kind of data that a user may pass, as a `Source`."""
    if isinstance(data, tuple | Mapping):
        source: Source = TensorSource(*labelled_batch(data))
    elif isinstance(data, DataLoader):
        source = LoaderSource(data)
    elif isinstance(data, list):
        source = BatchesSource(data)
    elif isinstance(data, Source):
        source = data
    elif isinstance(data, Dataset):
        source = DatasetSource(data)
    else:
        raise InputError(
            "data must be (inputs, labels), a mapping with `labels`, a torch Dataset or DataLoader, a list "
            f"of batches, or have `batches`, but is a {type(data).__name__}."
        )
    if _length(source) == 0:
        raise InputError("the data has no rows: there is nothing to learn from.")
    return source


def labelled_batch(drawn: Any) -> Batch:
    """A batch of a source as inputs and labels."""
    found: Any = labelled(drawn)
    if found.labels is None:
        raise InputError(
            "a batch must be a pair of inputs and labels, or a mapping with `labels`, but got inputs alone. "
            "Training and validation need labels: give TensorDataset(inputs, labels), or a collate_fn."
        )
    return Batch(found.inputs, found.labels)


def rows_per_epoch(loader: DataLoader[Any]) -> int:
    """How many rows a loader gives per epoch, which is up to its sampler and not to its data set.

    >>> from torch.utils.data import SubsetRandomSampler, TensorDataset
    >>> rows = TensorDataset(torch.zeros(100, 2), torch.zeros(100))
    >>> rows_per_epoch(DataLoader(rows, 4, sampler=SubsetRandomSampler(range(10)), drop_last=True))
    8
    """
    is_stream = isinstance(loader.dataset, IterableDataset)
    if is_stream and _has_length(loader.dataset):
        return _length(loader.dataset)
    with torch.random.fork_rng(devices=[]):  # a sampler without a length is counted, which may draw numbers
        if is_stream or loader.batch_sampler is None:  # what the data set gives may be batches already
            return sum(len(labelled_batch(batch).labels) for batch in loader)
        batches: Any = loader.batch_sampler
        if type(batches) is not BatchSampler:
            return sum(len(list(rows)) for rows in batches)
        sampler: Any = batches.sampler
        rows = len(sampler) if _has_length(sampler) else sum(1 for _ in sampler)
    return rows - rows % batches.batch_size if batches.drop_last else rows


def steps_per_epoch(source: Source, batch_size: int) -> int:
    """A loader, and a list of batches, have sizes of their own."""
    if isinstance(source, LoaderSource | BatchesSource):
        return source.steps
    return -(-len(source) // batch_size)


def checksum(source: Source, batch_size: int) -> int:
    """Of every row of an epoch, in the source's own order: one pass over the data."""
    found = 0
    for batch in map(labelled_batch, source.batches(batch_size)):
        for tensor in (*tensors(batch.inputs), batch.labels):
            values = tensor.detach().cpu().contiguous()
            found = zlib.crc32(values.flatten().view(torch.uint8).numpy().data, found)
    return found


def _length(data: Any) -> int:
    if not _has_length(data):
        raise InputError(
            "how much the weights' KL counts depends on the number of rows, but this data has no length. "
            "Give it a __len__ that returns the number of rows per epoch."
        )
    return len(data)


def _has_length(data: Any) -> bool:
    try:
        len(data)
    except (TypeError, NotImplementedError):
        return False
    return isinstance(data, Sized)
