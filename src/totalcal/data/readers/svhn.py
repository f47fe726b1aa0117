"""SVHN, cropped digits: MATLAB files with X [32, 32, 3, n] and y [n, 1], where 10 stands for the digit 0."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from totalcal.data.arrays import Arrays, checked
from totalcal.errors import DataError

MAX_FILE_BYTES = 400_000_000


def matlab_arrays(path: Path) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Images [n, 32, 32, 3] and labels as the file has them, 1 to 10."""
    from scipy.io import loadmat

    if path.stat().st_size > MAX_FILE_BYTES:
        raise DataError(f"{path} is larger than {MAX_FILE_BYTES} bytes: refused.")
    try:
        variables = loadmat(path, variable_names=["X", "y"])
        images, labels = variables["X"], variables["y"]
    except Exception as error:  # scipy raises whatever the damage happens to cause
        raise DataError(f"{path} is no MATLAB file with X and y: {error}") from error
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.dtype != np.uint8:
        raise DataError(f"{path}: X is {images.dtype} {images.shape}, expected uint8 (32, 32, 3, n).")
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2)), labels.reshape(-1)


def read_svhn(folder: Path, split: str) -> Arrays:
    """Images and digits 0 to 9."""
    path = folder / f"{split}_32x32.mat"
    images, labels = matlab_arrays(path)
    if len(labels) and not 1 <= labels.min() <= labels.max() <= 10:
        raise DataError(f"{path}: labels run from {labels.min()} to {labels.max()}, expected 1 to 10.")
    return checked(images, labels % 10, 10, str(path))
