"""Sets that scikit-learn brings: nothing to fetch. They have no official split, so ours is fixed here."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from totalcal.data.arrays import Arrays

SPLIT_SEED = 0
DIGITS_TEST = 500
IRIS_TEST = 50


def read_digits(_: Path, split: str) -> Arrays:
    """8 × 8 digits. scikit-learn counts their ink from 0 to 16; here it is 0 to 255, as elsewhere."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return _part(np.rint(bunch.images * (255 / 16)).astype(np.uint8), bunch.target, DIGITS_TEST, split)


def read_iris(_: Path, split: str) -> Arrays:
    """Four measures in centimetres; the split `all` is the whole set, which appendix B.2 trains on."""
    from sklearn.datasets import load_iris

    bunch = load_iris()
    measures = bunch.data.astype(np.float32)
    if split == "all":
        return Arrays(measures, bunch.target.astype(np.int64))
    return _part(measures, bunch.target, IRIS_TEST, split)


def _part(inputs: NDArray[Any], labels: NDArray[Any], test_size: int, split: str) -> Arrays:
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(
        np.arange(len(labels)), test_size=test_size, random_state=SPLIT_SEED, stratify=labels
    )
    chosen = np.sort(train if split == "train" else test)
    return Arrays(inputs[chosen], labels[chosen].astype(np.int64))
