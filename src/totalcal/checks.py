"""Checks of what a user hands to a model, made before any work is done."""

from typing import Any

import torch
from torch import Tensor

from totalcal.errors import InputError, LabelError, ShapeError
from totalcal.inputs import Inputs, as_inputs, broken_rows, count


def checked_inputs(value: Any) -> Inputs:
    """What a user hands to a model as tensors: finite, and at least one row."""
    inputs = as_inputs(value)
    if count(inputs) == 0:
        raise InputError("at least one input is needed, but none came. The first axis is the batch.")
    bad = broken_rows(inputs)
    if len(bad):
        raise InputError(
            f"inputs must be finite, but {len(bad)} of {count(inputs)} rows hold NaN or infinity, "
            f"the first is row {int(bad[0])}. Drop or impute them."
        )
    return inputs


def check_embedding(embedding: Tensor, rows: int, num_classes: int) -> None:
    """A backbone gives a row of `num_classes` finite numbers for each input."""
    if embedding.dim() != 2 or embedding.shape[0] != rows:
        raise ShapeError(
            f"the backbone gives a tensor of shape {tuple(embedding.shape)} for {rows} inputs, but "
            f"({rows}, {num_classes}) is needed. Flatten its output."
        )
    if embedding.shape[1] != num_classes:
        raise ShapeError(
            f"the backbone gives {embedding.shape[1]} columns, but num_classes is {num_classes}.\n"
            f"  A process decides with the backbone's output: end it with a layer of {num_classes} outputs."
        )


def check_labels(labels: Tensor, rows: int, num_classes: int) -> None:
    """Labels are whole numbers from 0 to num_classes − 1, one a row."""
    if labels.dtype != torch.int64:
        raise LabelError(f"labels must be int64 class numbers, but are {labels.dtype}. Call labels.long().")
    if labels.shape != (rows,):
        raise ShapeError(f"{rows} rows need labels of shape ({rows},), but they have {tuple(labels.shape)}.")
    if rows and (int(labels.min()) < 0 or int(labels.max()) >= num_classes):
        raise LabelError(
            f"labels must lie in 0 … {num_classes - 1}, but range from "
            f"{int(labels.min())} to {int(labels.max())}. Number the classes from 0, or raise num_classes."
        )
