"""What the scores accept: NumPy arrays, tensors, lists; what they work on: float64 and int64 arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from totalcal.errors import InputError

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
