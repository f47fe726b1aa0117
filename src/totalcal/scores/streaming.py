"""Any set of inputs as blocks of one size: how a loader batches must not move a score."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from totalcal.errors import InputError, ShapeError
from totalcal.inputs import Inputs, Labelled, can_be_joined, count, joined, labelled, taken
from totalcal.scores.arrays import class_numbers

_LOADED_AT_ONCE = 256

Rows = Any
"""A tensor or array; a tuple (inputs, labels); a mapping of tensors; a Dataset; an iterable of batches; what
the loaders of `totalcal.data` give, and anything else with `batches(size)`.

What a batch may be, `totalcal.inputs` says. A data frame, alone or with labels, goes to the predictor as it
is, in slices of its rows."""


def labelled_blocks(data: Rows, size: int, like: Inputs | None = None) -> Iterator[Labelled]:
    """Blocks of `size` rows (the last may be shorter), whatever the batches were; labels may be None.

    With `like`, inputs of the same kind, a tuple (ids, mask) is inputs and its mask is not read as labels.
    Batches that cannot be joined, of texts padded to other lengths, stay blocks of their own.
    """
    table, labels = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    if hasattr(table, "iloc") and hasattr(table, "columns"):  # a data frame
        known = None if labels is None else torch.as_tensor(labels)
        if known is not None and len(known) != len(table):
            raise ShapeError(f"there are {len(table)} inputs, but {len(known)} labels.")
        for start in range(0, len(table), size):
            cut = slice(start, start + size)
            yield Labelled(table.iloc[cut], None if known is None else known[cut])
        return
    waiting: list[Labelled] = []
    rows = 0
    for batch in _batches(data, size, like):
        if waiting and not can_be_joined(waiting[-1].inputs, batch.inputs):
            yield _joined(waiting)
            waiting, rows = [], 0
        waiting.append(batch)
        rows += count(batch.inputs)
        if rows >= size:
            *whole, rest = _split(_joined(waiting), size)
            yield from whole
            rows = count(rest.inputs)
            waiting = [rest] if rows else []
    if waiting:
        yield _joined(waiting)


def numbered(data: Rows, names: Sequence[Any] | None) -> Rows:
    """The same rows, with class numbers for labels that are names of classes.

    Batches hold no words, so their labels are numbers already if the names are words.
    """
    if names is None:
        return data
    if isinstance(data, tuple) and len(data) == 2:
        return data[0], torch.from_numpy(class_numbers(data[1], names))
    if any(isinstance(name, str) for name in names):
        return data
    return (
        batch
        if batch.labels is None
        else Labelled(batch.inputs, torch.from_numpy(class_numbers(batch.labels, names)))
        for batch in _batches(data, _LOADED_AT_ONCE, None)
    )


def _batches(data: Rows, size: int, like: Inputs | None) -> Iterator[Labelled]:
    match data:
        case torch.Tensor() | np.ndarray() | tuple() | Mapping():
            yield labelled(data, like)
        case Dataset():
            yield from (labelled(batch, like) for batch in DataLoader(data, batch_size=size))
        case _ if hasattr(data, "batches"):
            yield from (labelled(batch, like) for batch in data.batches(size))
        case Iterable():
            yield from (labelled(batch, like) for batch in data)
        case _:
            raise InputError(
                f"inputs are a tensor, a tuple, a mapping, a Dataset or batches, not {type(data).__name__}."
            )


def _joined(parts: list[Labelled]) -> Labelled:
    known = [part.labels for part in parts if part.labels is not None]
    if known and len(known) != len(parts):
        raise InputError("some batches have labels and some have none; give them with all or with none.")
    return Labelled(joined([part.inputs for part in parts]), torch.cat(known) if known else None)


def _split(block: Labelled, size: int) -> list[Labelled]:
    """Whole blocks, and the rest, which may be empty."""
    rows = count(block.inputs)
    edges = [*range(0, rows - rows % size + 1, size), rows]
    return [
        Labelled(
            taken(block.inputs, slice(start, end)), None if block.labels is None else block.labels[start:end]
        )
        for start, end in pairwise(edges)
    ]
