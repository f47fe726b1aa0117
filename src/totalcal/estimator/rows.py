"""The rows of a table on their way into training: checked, weighted, split."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from totalcal.errors import InputError, LabelError
from totalcal.types import Batch

_CONTEXT_ROWS = 50


class Checked(NamedTuple):
    """A table, its labels, and a weight for each row, or None where all weigh the same."""

    table: npt.NDArray[np.float64]
    labels: npt.NDArray[Any]
    weights: Tensor | None


class Parts(NamedTuple):
    training: Batch
    weights: Tensor | None
    validation: Batch | None


def checked(table: npt.NDArray[np.float64], labels: npt.NDArray[Any], sample_weight: Any) -> Checked:
    """Labels that are classes, and weights that are finite and not negative; rows of weight 0 are dropped."""
    check_classification_targets(labels)
    if sample_weight is None:
        return Checked(table, labels, None)
    weights = _check_sample_weight(sample_weight, table, dtype=np.float64, ensure_non_negative=True)
    kept = weights > 0
    if not kept.any():
        raise InputError("all sample weights are 0, which leaves no row to learn from.")
    table, labels, weights = table[kept], labels[kept], weights[kept]
    equal = bool((weights == weights[0]).all())
    return Checked(table, labels, None if equal else torch.from_numpy(weights))


def check_classes(classes: npt.NDArray[Any], who: str) -> None:
    if len(classes) < 2:
        raise LabelError(f"{who} needs at least 2 classes, but the labels hold {len(classes)} class.")


def class_numbers(labels: npt.NDArray[Any], classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The place of each label among the sorted classes."""
    unknown = sorted(set(labels.tolist()) - set(classes.tolist()))
    if unknown:
        raise LabelError(f"the label {unknown[0]!r} is none of the classes that the model was made for.")
    return np.searchsorted(classes, labels).astype(np.int64)


def split(data: Batch, weights: Tensor | None, fraction: float, seed: int) -> Parts:
    """A stratified share of the rows for validation, or none where the classes are too small to share."""
    count = round(fraction * len(data.labels))
    classes, sizes = data.labels.unique(return_counts=True)
    if count < len(classes) or int(sizes.min()) < 2 or len(data.labels) - count < len(classes):
        return Parts(data, weights, None)
    order = np.arange(len(data.labels))
    first, second = train_test_split(order, test_size=count, stratify=data.labels, random_state=seed)
    training = Batch(data.inputs[first], data.labels[first])
    return Parts(
        training,
        None if weights is None else weights[first],
        Batch(data.inputs[second], data.labels[second]),
    )


def context(data: Batch, seed: int) -> Batch:
    """At most 50 rows, drawn without replacement."""
    order = torch.randperm(len(data.labels), generator=torch.Generator().manual_seed(seed))
    chosen = order[:_CONTEXT_ROWS]
    return Batch(data.inputs[chosen], data.labels[chosen])
