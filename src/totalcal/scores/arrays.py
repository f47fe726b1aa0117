"""What the scores accept and what they work on: checked float64 and int64 arrays.

Bad input gets a clear error, never a number.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from totalcal.errors import InputError, LabelError, ShapeError
from totalcal.inputs import as_class_numbers, why_no_classes

Values = npt.ArrayLike | torch.Tensor
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def plain(values: Values) -> npt.NDArray[Any]:
    """A NumPy array of anything array-like; a tensor is detached and brought to the CPU first.

    >>> plain(torch.tensor([0.5], dtype=torch.bfloat16, requires_grad=True))
    array([0.5])
    """
    if isinstance(values, torch.Tensor):
        held = values.detach().cpu()
        return np.asarray(held.double() if held.is_floating_point() else held)
    return np.asarray(values)


def precision(values: Values) -> float:
    """The relative spacing of the numbers as they came: a row of bfloat16 sums to 1 only up to 0.008.

    >>> precision(torch.ones(1, dtype=torch.bfloat16))
    0.0078125
    """
    if isinstance(values, torch.Tensor):
        return torch.finfo(values.dtype).eps if values.is_floating_point() else 0.0
    array = np.asarray(values)
    return float(np.finfo(array.dtype).eps) if array.dtype.kind == "f" else 0.0


def floats(values: Values, what: str = "the scores") -> Floats:
    """A float64 array without NaN; infinities pass, because a ranking can use them."""
    array = plain(values)
    if array.size == 0:
        raise InputError(f"{what} are empty; a score needs at least one example.")
    if array.dtype.kind not in "buif":
        raise InputError(f"{what} must be real numbers, but their dtype is {array.dtype}.")
    array = array.astype(np.float64)
    if np.isnan(array).any():
        raise InputError(
            f"{what} hold {int(np.isnan(array).sum())} NaN of {array.size} values; find their source first."
        )
    return array


TOLERANCE = 1e-3  # of a row's sum: rounding passes, a forgotten class does not


def check_probabilities(probabilities: Values) -> Floats:
    """n × K probabilities as float64, or an error that says what they are instead."""
    array = floats(probabilities, "the probabilities")
    if array.ndim != 2:
        raise ShapeError(
            f"the probabilities must be examples × classes, but their shape is {array.shape}. "
            "Two classes are two columns: stack 1 − p and p."
        )
    if array.shape[1] < 2:
        raise ShapeError(
            f"the probabilities have {array.shape[1]} class; two classes are two columns: stack 1 − p and p."
        )
    tolerance = max(TOLERANCE, precision(probabilities))
    outside = (array < 0) | (array > 1 + tolerance)
    if outside.any():
        raise InputError(
            f"the probabilities hold {array[outside][0]:.4g}, which is outside of [0, 1]. "
            "If these are logits, take their softmax first, or state them as logits."
        )
    sums = array.sum(axis=1)
    wrong = np.abs(sums - 1) > tolerance
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"the probabilities must sum to 1 in each row, but row {row} sums to {sums[row]:.6g}."
        )
    return array


def label_vector(labels: Values, examples: int, classes: int) -> Integers:
    """n integer labels in 0 … K − 1, or an error that names the first wrong one."""
    array = plain(labels)
    reason = why_no_classes(torch.as_tensor(array)) if array.dtype.kind in "iubf" else None
    if reason is not None and (array.ndim != 1 or array.dtype.kind == "f"):
        raise LabelError(reason)
    if array.ndim != 1:
        raise ShapeError(f"labels must be one integer for each example, but their shape is {array.shape}.")
    if len(array) != examples:
        raise ShapeError(f"there are {examples} predictions, but {len(array)} labels.")
    if array.dtype.kind not in "iub":
        raise LabelError(
            f"labels must be integers, but their dtype is {array.dtype}. Names need `classes`, what the "
            "columns stand for: an argument, or an array in an .npz."
        )
    outside = (array < 0) | (array >= classes)
    if outside.any():
        raise LabelError(
            f"the predictions have {classes} classes, so labels must be in 0 … {classes - 1}, "
            f"but one of them is {array[outside][0]}."
        )
    return array.astype(np.int64)


def one_per_row(labels: Values) -> npt.NDArray[Any]:
    """Labels as a vector; a single column is one.

    >>> one_per_row([["dog"], ["cat"]]).tolist()
    ['dog', 'cat']
    """
    given = plain(labels)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.ndim != 1:
        raise ShapeError(f"labels are one class per row, but their shape is {given.shape}.")
    return given


def class_numbers(labels: Values, names: Sequence[Any] | None) -> npt.NDArray[Any]:
    """The place of each label among the names of the classes; without names labels are numbers already.

    >>> class_numbers(["dog", "cat"], ("cat", "dog"))
    array([1, 0])
    """
    if names is None:
        given = plain(labels)
        if given.dtype.kind not in "iufb":
            raise LabelError(
                f"labels are class numbers, but the dtype of these is {given.dtype}, and the classes have no "
                "names: give the names of all when you calibrate, classes=…, in the order of the columns."
            )
        return given
    given = one_per_row(labels)
    places = {name: place for place, name in enumerate(names)}
    unknown = [label for label in given.tolist() if label not in places]
    if unknown:
        raise LabelError(
            f"the label {unknown[0]!r} is not one of the model's {len(names)} classes: "
            f"{', '.join(map(repr, list(places)[:5]))}{', …' if len(names) > 5 else ''}."
        )
    return np.array([places[label] for label in given.tolist()], dtype=np.int64)


def label_numbers(labels: Values, names: Sequence[Any] | None) -> npt.NDArray[Any]:
    """Labels as class numbers, given as such or by name; numbers are names only where names are.

    >>> label_numbers([1, 0], ("cat", "dog")), label_numbers([7, 5], (5, 7))
    (array([1, 0]), array([1, 0]))
    """
    given = plain(labels)
    kind: Any = {"i": int, "u": int, "f": float, "b": bool}.get(given.dtype.kind)
    if kind is None or any(type(name) is kind for name in names or ()):
        return class_numbers(given, names)
    numbers = as_class_numbers(torch.tensor(given))
    reason = why_no_classes(numbers)
    if reason is not None:
        raise LabelError(reason)
    return plain(numbers)


def class_names(predictor: object) -> list[Any] | None:
    """The names that a predictor has for its classes: `classes_` of an estimator, `classes` of others."""
    names = getattr(predictor, "classes_", getattr(predictor, "classes", None))
    return plain(names).tolist() if isinstance(names, np.ndarray | tuple) else None


def check_predictions(probabilities: Values, labels: Values) -> tuple[Floats, Integers]:
    """Probabilities and labels that fit together."""
    array = check_probabilities(probabilities)
    return array, label_vector(labels, *array.shape)


def check_vector(values: Values, what: str) -> Floats:
    """One number for each example."""
    array = floats(values, what)
    if array.ndim != 1:
        raise ShapeError(f"{what} must be one number for each example, but their shape is {array.shape}.")
    return array


def check_count(number: int, what: str) -> int:
    """A count of at least 1."""
    if number < 1:
        raise InputError(f"{what} must be at least 1, but got {number}.")
    return number
