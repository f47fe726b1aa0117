"""IDX, the format of MNIST and its kin: two zero bytes, type, number of axes, their sizes, the data."""

import math
import struct
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
    sizes, body = data[4 : 4 + 4 * axes], data[4 + 4 * axes :]
    shape = struct.unpack(f">{len(sizes) // 4}I", sizes[: len(sizes) // 4 * 4])
    if axes not in (1, 3) or len(shape) != axes or math.prod(shape) != len(body) or not body:
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
