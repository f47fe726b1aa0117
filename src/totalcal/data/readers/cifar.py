"""CIFAR's binary archives: records of one or two label bytes and 3 × 1024 bytes of red, green and blue."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from totalcal.data.arrays import Arrays, checked
from totalcal.errors import DataError

PIXELS = 3 * 32 * 32


def read_records(path: Path, label_bytes: int, num_classes: int) -> Arrays:
    """Images [n, 32, 32, 3] and the last of the label bytes (in CIFAR-100: coarse, then fine)."""
    data = np.fromfile(path, dtype=np.uint8)
    record = label_bytes + PIXELS
    if len(data) == 0 or len(data) % record:
        raise DataError(f"{path} has {len(data)} bytes, which is no whole number of {record}-byte records.")
    records = data.reshape(-1, record)
    images = records[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return checked(np.ascontiguousarray(images), records[:, label_bytes - 1], num_classes, str(path))


def cifar_reader(
    files: Mapping[str, tuple[str, ...]], label_bytes: int, num_classes: int
) -> Callable[[Path, str], Arrays]:
    """A reader of the files of a split, one after the other."""

    def read(folder: Path, split: str) -> Arrays:
        parts = [read_records(folder / name, label_bytes, num_classes) for name in files[split]]
        return Arrays(
            np.concatenate([part.inputs for part in parts]), np.concatenate([part.labels for part in parts])
        )

    return read
