"""Checks of what a user hands to a model, made before any work is done."""

import torch
from torch import Tensor

from totalcal.errors import InputError, LabelError, ShapeError


def check_inputs(inputs: Tensor) -> None:
    """Inputs are finite, and there is at least one."""
    if inputs.dim() == 0 or inputs.shape[0] == 0:  # not `len`, which an export would take for a constant
        raise InputError("at least one input is needed, but none came. The first axis is the batch.")
    if _may_hold_nan_or_infinity(inputs) and not torch.isfinite(inputs).all():
        bad = (~torch.isfinite(inputs)).flatten(1).any(1).nonzero().flatten()
        raise InputError(
            f"inputs must be finite, but {len(bad)} of {len(inputs)} rows hold NaN or infinity, "
            f"the first is row {int(bad[0])}. Drop or impute them."
        )


def _may_hold_nan_or_infinity(inputs: Tensor) -> bool:
    """NaN and infinity survive a sum: one cheap pass tells all batches but a rare huge one.

    An exported or compiled program has no place for errors that depend on its inputs.
    """
    if torch.compiler.is_compiling():
        return False
    return inputs.is_floating_point() and not bool(inputs.sum().isfinite())


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
