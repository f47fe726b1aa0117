"""What a reader gives: inputs and labels as NumPy arrays, row by row."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from totalcal.errors import DataError


class Arrays(NamedTuple):
    """`inputs`: uint8 images [n, height, width(, channels)], int64 tokens [n, length] or float32 tables."""

    inputs: NDArray[Any]
    labels: NDArray[np.int64]


def checked(inputs: NDArray[Any], labels: NDArray[Any], num_classes: int, where: str) -> Arrays:
    """The arrays as they are, labels as int64, once they have as many rows and the labels are classes."""
    if len(inputs) != len(labels):
        raise DataError(f"{where}: {len(inputs)} inputs but {len(labels)} labels. Fetch the set again.")
    if len(labels) and not 0 <= labels.min() <= labels.max() < num_classes:
        raise DataError(
            f"{where}: labels run from {labels.min()} to {labels.max()}, expected 0 to {num_classes - 1}."
        )
    return Arrays(inputs, labels.astype(np.int64))
