"""Where the batches of a run come from: tensors, a data set, a loader, or anything with `batches`."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from totalcal.errors import InputError
from totalcal.types import Batch


@runtime_checkable
class Source(Protocol):
    """Labelled rows that come in batches, in an order drawn from the generator, or in their own without."""

    def __len__(self) -> int:
        """How many rows there are."""

    def batches(
        self, batch_size: int, generator: torch.Generator | None = None
    ) -> Iterable[tuple[Tensor, Tensor]]:
        """All rows once."""


Data: TypeAlias = Source | tuple[Tensor, Tensor] | Dataset[Any] | DataLoader[Any]


class TensorSource:
    """Rows held in memory: a batch is an indexed copy, which takes no worker and no collation."""

    def __init__(self, inputs: Tensor, labels: Tensor) -> None:
        if len(inputs) != len(labels):
            raise InputError(
                f"every input needs a label, but {len(inputs)} inputs and {len(labels)} labels came."
            )
        self.inputs, self.labels = inputs, labels

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
        if generator is None:
            yield from map(Batch, self.inputs.split(batch_size), self.labels.split(batch_size))
            return
        for rows in torch.randperm(len(self), generator=generator).split(batch_size):
            yield Batch(self.inputs[rows], self.labels[rows])


class DatasetSource:
    """A map-style data set of torch: pairs of input and label."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> Iterable[Any]:
        return DataLoader(self.dataset, batch_size, shuffle=generator is not None, generator=generator)


class LoaderSource:
    """A loader of the user's own, with the batch size and the kind of order that it was made with.

    Its generator is seeded for each epoch, or torch's own where it has none, so that a run can be repeated.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader.dataset)  # type: ignore[arg-type]

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> Iterable[Any]:
        if self.loader.generator is not None and generator is not None:
            self.loader.generator.manual_seed(generator.initial_seed())
        return self.loader


def as_source(data: Data) -> Source:
    """Whatever a user may hold as a `Source`."""
    if isinstance(data, tuple):
        source: Source = TensorSource(*data)
    elif isinstance(data, DataLoader):
        source = LoaderSource(data)
    elif isinstance(data, Source):
        source = data
    elif isinstance(data, Dataset):
        source = DatasetSource(data)
    else:
        raise InputError(
            f"data must be (inputs, labels), a torch Dataset or DataLoader, or have `batches`, "
            f"but is a {type(data).__name__}."
        )
    if len(source) == 0:
        raise InputError("there is nothing to learn from: the data has no rows.")
    return source


def fingerprint(source: Source, batch_size: int, generator: torch.Generator) -> int:
    """A number that is the same for the same data: the checksum of a first batch."""
    inputs, labels = next(iter(source.batches(batch_size, generator)))
    return zlib.crc32(_bytes(labels), zlib.crc32(_bytes(inputs)))


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()
