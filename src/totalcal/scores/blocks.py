"""Any set of inputs, as blocks of one size: how somebody's loader batches must not move a score."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from totalcal.errors import InputError, ShapeError

Inputs = Any
"""A tensor or array; a tuple (inputs, labels); a Dataset; an iterable of batches, each a tensor or a pair."""

Block = tuple[Tensor, Tensor | None]


def blocks(data: Inputs, size: int) -> Iterator[Block]:
    """Blocks of `size` rows (the last may be shorter), whatever the batches were; labels may be None."""
    waiting: list[Block] = []
    rows = 0
    for batch in _batches(data, size):
        waiting.append(batch)
        rows += len(batch[0])
        if rows >= size:
            *whole, rest = _split(_joined(waiting), size)
            yield from whole
            waiting, rows = ([rest], len(rest[0])) if len(rest[0]) else ([], 0)
    if waiting:
        yield _joined(waiting)


def _batches(data: Inputs, size: int) -> Iterator[Block]:
    match data:
        case torch.Tensor() | np.ndarray() | tuple():
            yield _block(data)
        case Dataset():
            yield from map(_block, DataLoader(data, batch_size=size))
        case Iterable():
            yield from map(_block, data)
        case _:
            raise InputError(
                f"inputs are a tensor, a tuple, a Dataset or batches, not {type(data).__name__}."
            )


def _block(batch: Any) -> Block:
    inputs, labels = batch if isinstance(batch, tuple | list) and len(batch) == 2 else (batch, None)
    block = torch.as_tensor(inputs), None if labels is None else torch.as_tensor(labels)
    if block[0].dim() == 0:
        raise ShapeError("inputs need a first axis of examples, but a single number came.")
    if block[1] is not None and len(block[1]) != len(block[0]):
        raise ShapeError(f"there are {len(block[0])} inputs, but {len(block[1])} labels.")
    return block


def _joined(parts: list[Block]) -> Block:
    labels = [part[1] for part in parts]
    known = [part for part in labels if part is not None]
    if known and len(known) != len(labels):
        raise InputError("some batches have labels and some have none; give them with all or with none.")
    return torch.cat([part[0] for part in parts]), torch.cat(known) if known else None


def _split(block: Block, size: int) -> list[Block]:
    """Whole blocks, and the rest, which may be empty."""
    inputs, labels = block
    cut = len(inputs) - len(inputs) % size
    edges = [*range(0, cut + 1, size), len(inputs)]
    return [
        (inputs[start:end], None if labels is None else labels[start:end]) for start, end in pairwise(edges)
    ]
