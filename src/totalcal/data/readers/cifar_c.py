"""CIFAR-10-C (Hendrycks & Dietterich 2019): a `.npy` a corruption, five severities of 10,000 images each.

A split is the name of a corruption: `load("cifar-10-c", "gaussian_noise")` gives all five, the mildest first.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from totalcal.data.arrays import Arrays, checked
from totalcal.errors import DataError

_NAMES = """
brightness contrast defocus_blur elastic_transform fog frost gaussian_blur gaussian_noise glass_blur
impulse_noise jpeg_compression motion_blur pixelate saturate shot_noise snow spatter speckle_noise zoom_blur
"""
CORRUPTIONS = tuple(_NAMES.split())


def read_cifar_c(folder: Path, split: str) -> Arrays:
    """Images [50000, 32, 32, 3] and their labels."""
    images = _array(folder / f"{split}.npy")
    if images.ndim != 4 or images.shape[1:] != (32, 32, 3) or images.dtype != np.uint8:
        raise DataError(
            f"{folder}/{split}.npy is {images.dtype} {images.shape}, expected uint8 (n, 32, 32, 3)."
        )
    return checked(images, _array(folder / "labels.npy"), 10, str(folder))


def _array(path: Path) -> NDArray[np.uint8]:
    try:
        array: NDArray[np.uint8] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is no .npy file of numbers: {error}") from error
    return array
