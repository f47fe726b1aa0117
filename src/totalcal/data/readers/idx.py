"""IDX, the format of MNIST and its kin: two zero bytes, type, number of axes, their sizes, the data."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from totalcal.data.arrays import Arrays, checked
from totalcal.data.description import RawFile
from totalcal.data.integrity import content, resolve
from totalcal.errors import DataError

UNSIGNED_BYTE = 0x08
PREFIXES = {"train": "train", "test": "t10k"}


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of an IDX file of unsigned bytes, plain or .gz."""
    data = b"".join(content(path))
    if len(data) < 4 or data[:3] != bytes((0, 0, UNSIGNED_BYTE)):
        raise DataError(f"{path} is no IDX file of unsigned bytes: it begins with {data[:4]!r}.")
    axes = data[3]
    shape = tuple(int(size) for size in np.frombuffer(data[4 : 4 + 4 * axes], dtype=">u4"))
    body = data[4 + 4 * axes :]
    if len(shape) != axes or int(np.prod(shape, dtype=object)) != len(body):
        raise DataError(f"{path} announces shape {shape} but holds {len(body)} bytes of data: it is damaged.")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def idx_reader(num_classes: int) -> Callable[[Path, str], Arrays]:
    """A reader of `train-…` and `t10k-…` pairs of image and label files."""

    def read(folder: Path, split: str) -> Arrays:
        images, labels = (
            read_idx(resolve(folder, RawFile(f"{PREFIXES[split]}-{part}-ubyte.gz")))
            for part in ("images-idx3", "labels-idx1")
        )
        if images.ndim != 3 or labels.ndim != 1:
            raise DataError(
                f"{folder}: images of {images.ndim} axes (expected 3), labels of {labels.ndim} (1)."
            )
        return checked(images, labels, num_classes, str(folder))

    return read
