"""Any set of inputs, as blocks of one size: how somebody's loader batches must not move a score."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from totalcal.errors import InputError
from totalcal.inputs import Inputs, Labelled, can_be_joined, count, joined, labelled, taken

Rows = Any
"""A tensor or array; a tuple (inputs, labels); a mapping of tensors; a Dataset; an iterable of batches.

What a batch may be, `totalcal.inputs` says."""


def blocks(data: Rows, size: int, like: Inputs | None = None) -> Iterator[Labelled]:
    """Blocks of `size` rows (the last may be shorter), whatever the batches were; labels may be None.

    With `like`, inputs of the same kind, a tuple (ids, mask) is inputs and its mask is not read as labels.
    Batches that cannot be joined, of texts padded to other lengths, stay blocks of their own.
    """
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


def _batches(data: Rows, size: int, like: Inputs | None) -> Iterator[Labelled]:
    match data:
        case torch.Tensor() | np.ndarray() | tuple() | Mapping():
            yield labelled(data, like)
        case Dataset():
            yield from (labelled(batch, like) for batch in DataLoader(data, batch_size=size))
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
