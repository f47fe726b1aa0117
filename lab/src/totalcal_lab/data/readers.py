"""Readers of the official image formats: (folder, split) → uint8 images and labels.

IDX (MNIST and its kin), CIFAR's binary records, CIFAR-10H's votes, SVHN's MATLAB files,
TinyImageNet's JPEG files. Every one of them ends in arrays or in an error that names the file.
"""

import io
import math
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from totalcal.data import Arrays
from totalcal.errors import DataError
from totalcal.files import read_bytes, read_npy, read_picture, read_text, unreadable
from totalcal_lab.data.description import RawFile, checked

MOST_BYTES: Final = 1 << 30  # of one file of a set

# IDX: two zero bytes, type, number of axes, their sizes, the data.
UNSIGNED_BYTE: Final = 0x08
PREFIXES: Final = {"train": "train", "test": "t10k"}


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of an IDX file of unsigned bytes, plain or .gz."""
    data = read_bytes(path, MOST_BYTES)
    if len(data) < 4 or data[:3] != bytes((0, 0, UNSIGNED_BYTE)):
        raise DataError(f"{path} is not an IDX file of unsigned bytes: it begins with {data[:4]!r}.")
    axes = data[3]
    sizes, body = data[4 : 4 + 4 * axes], data[4 + 4 * axes :]
    shape = struct.unpack(f">{len(sizes) // 4}I", sizes[: len(sizes) // 4 * 4])
    if axes not in (1, 3) or len(shape) != axes or math.prod(shape) != len(body) or not body:
        raise DataError(
            f"{path} announces shape {shape[:8]} but holds {len(body)} bytes of data: it is damaged."
        )
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def idx_reader(num_classes: int) -> Callable[[Path, str], Arrays]:
    """A reader of `train-…` and `t10k-…` pairs of image and label files."""

    def read(folder: Path, split: str) -> Arrays:
        images, labels = (
            read_idx(RawFile(f"{PREFIXES[split]}-{part}-ubyte.gz").within(folder))
            for part in ("images-idx3", "labels-idx1")
        )
        if images.ndim != 3 or labels.ndim != 1:
            raise DataError(
                f"{folder}: images of {images.ndim} axes (expected 3), labels of {labels.ndim} (1)."
            )
        return checked(images, labels, num_classes, str(folder))

    return read


# CIFAR: records of one or two label bytes and 3 × 1024 bytes of red, green and blue.
PIXELS: Final = 3 * 32 * 32


def read_records(path: Path, label_bytes: int, num_classes: int) -> Arrays:
    """Images [n, 32, 32, 3] and the last of the label bytes (in CIFAR-100: coarse, then fine)."""
    data = np.frombuffer(read_bytes(path, MOST_BYTES), dtype=np.uint8)
    record = label_bytes + PIXELS
    if len(data) == 0 or len(data) % record:
        raise DataError(
            f"{path} has {len(data)} bytes, which is not a whole number of {record}-byte records."
        )
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


def read_votes(folder: Path, split: str) -> Arrays:
    """CIFAR-10H: votes [n, 10] as float32, a row per test image; the label is the most voted class."""
    path = folder / "cifar10h-counts.npy"
    votes = read_npy(path)
    if votes.ndim != 2 or votes.shape[1] != 10 or votes.dtype.kind not in "iu" or (votes.sum(1) < 2).any():
        raise DataError(f"{path} is {votes.dtype} {votes.shape}, expected counts (n, 10), two or more a row.")
    return checked(votes.astype(np.float32), votes.argmax(1), 10, str(path))


# SVHN, cropped digits: MATLAB files with X [32, 32, 3, n] and y [n, 1], where 10 stands for the digit 0.
_COMPRESSED: Final = 15
_HEADER: Final = 128


def read_svhn(folder: Path, split: str) -> Arrays:
    """Images and digits 0 to 9."""
    path = folder / f"{split}_32x32.mat"
    images, labels = svhn_arrays(path)
    if len(labels) and not 1 <= labels.min() <= labels.max() <= 10:
        raise DataError(f"{path}: labels run from {labels.min()} to {labels.max()}, expected 1 to 10.")
    return checked(images, labels % 10, 10, str(path))


def svhn_arrays(path: Path) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Images [n, 32, 32, 3] and labels as the file has them, 1 to 10."""
    from scipy.io import loadmat

    data = read_bytes(path, MOST_BYTES)
    with unreadable(path, "a MATLAB file of level 5 with compressed arrays"):
        _check_sums(data)
        variables = loadmat(io.BytesIO(data), variable_names=["X", "y"])
        images, labels = variables["X"], variables["y"]
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.dtype != np.uint8:
        raise DataError(f"{path}: X is {images.dtype} {images.shape}, expected uint8 (32, 32, 3, n).")
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2)), labels.reshape(-1)


def _check_sums(data: bytes) -> None:
    """SciPy's reader ends the process on some damaged files; but every compressed array has a checksum."""
    if data[_HEADER - 4 : _HEADER] != b"\0\1IM":
        raise ValueError("its header is another")
    place = _HEADER
    while place < len(data):
        kind, size = struct.unpack("<II", data[place : place + 8])
        decoder = zlib.decompressobj()
        decoder.decompress(memoryview(data)[place + 8 : place + 8 + size], MOST_BYTES)
        if kind != _COMPRESSED or not decoder.eof or decoder.unused_data:
            raise ValueError("an array is not whole")
        place += 8 + size


# TinyImageNet's validation set: 64 × 64 JPEG files and a table of their WordNet ids.
SIDE: Final = 64


def read_tiny_imagenet(folder: Path, split: str) -> Arrays:
    """Images [n, 64, 64, 3], in the order of the table; a label is its line in `wnids.txt`."""
    ids = {wnid: label for label, wnid in enumerate(read_text(folder / "wnids.txt").split())}
    table = folder / "val" / "val_annotations.txt"
    rows = [_name_and_id(line, table) for line in read_text(table).splitlines()]
    if not rows:
        raise DataError(f"{table} is empty: fetch the set again.")
    unknown = {wnid for _, wnid in rows} - set(ids)
    if unknown:
        raise DataError(
            f"{folder}: val_annotations.txt names {sorted(unknown)[:3]}, which wnids.txt does not."
        )
    images = np.stack([_tiny_image(folder / "val" / "images" / name) for name, _ in rows])
    return checked(images, np.array([ids[wnid] for _, wnid in rows]), len(ids), str(folder))


def _name_and_id(line: str, table: Path) -> tuple[str, str]:
    fields = line.split("\t")
    if len(fields) < 2 or Path(fields[0]).name != fields[0] or not fields[0]:
        raise DataError(f"{table}: expected a file name, a tab and a WordNet id, found {line[:60]!r}.")
    return fields[0], fields[1]


def _tiny_image(path: Path) -> NDArray[np.uint8]:
    image = read_picture(path, most_pixels=SIDE * SIDE)  # some are grey
    if image.size != (SIDE, SIDE):
        raise DataError(f"{path} is {image.size[0]} × {image.size[1]} pixels, expected {SIDE} × {SIDE}.")
    return np.asarray(image)
