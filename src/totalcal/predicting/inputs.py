"""Where rows come from: a CSV table, an array in an .npz, a folder of images; a chunk at a time."""

import csv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from totalcal.errors import InputError, UnreadableFileError
from totalcal.files.preprocessing import Preprocessing
from totalcal.pictures import SUFFIXES, picture_files
from totalcal.reading import read_picture


class Complaint(NamedTuple):
    """A row that cannot be used, and why."""

    name: str
    reason: str


@dataclass
class Chunk:
    """Some rows in order: the good ones by name and value, the bad ones by name and reason."""

    names: list[str] = field(default_factory=list)
    values: list[npt.NDArray[Any]] = field(default_factory=list)
    complaints: list[Complaint] = field(default_factory=list)

    def take(self, name: str, value: npt.NDArray[Any]) -> None:
        if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
            self.complaints.append(Complaint(name, "holds NaN or infinity"))
            return
        self.names.append(name)
        self.values.append(value)

    @property
    def rows(self) -> int:
        return len(self.names) + len(self.complaints)


class Rows(Protocol):
    """Rows in a fixed order."""

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        """All rows after the first `skip`, so many at a time."""


def rows_of(path: Path, preprocessing: Preprocessing | None) -> Rows:
    """The reader for a folder of images, an .npz or a .csv."""
    if path.is_dir():
        return ImageFolder(path, _needed(preprocessing, "a folder of images"))
    if not path.is_file():
        raise InputError(f"there is no file or folder {path}.")
    if path.suffix == ".npz":
        return ArrayFile(path)
    if path.suffix == ".csv":
        return TableFile(path, _needed(preprocessing, "a table"))
    raise InputError(f"inputs are a folder of images, an .npz or a .csv, but {path} is none of them.")


class TableFile:
    """A CSV with a header line; its columns are found by name where the model knows names."""

    def __init__(self, path: Path, preprocessing: Preprocessing) -> None:
        self.path, self.width, self.columns = path, preprocessing.shape[0], preprocessing.columns

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        with self.path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            header = next(lines, [])
            places = self._places(header)
            numbered = enumerate(islice(lines, skip, None), start=skip)
            while block := list(islice(numbered, size)):
                chunk = Chunk()
                for row, cells in block:
                    self._read(chunk, f"row {row}", cells, len(header), places)
                yield chunk

    def _places(self, header: list[str]) -> list[int]:
        if self.columns is None:
            if len(header) != self.width:
                raise InputError(
                    f"the model takes {self.width} columns, but {self.path} has {len(header)} in its header."
                )
            return list(range(self.width))
        missing = [name for name in self.columns if name not in header]
        if missing:
            raise InputError(f"{self.path} lacks the column {missing[0]!r} ({len(missing)} are missing).")
        return [header.index(name) for name in self.columns]

    @staticmethod
    def _read(chunk: Chunk, name: str, cells: list[str], width: int, places: list[int]) -> None:
        if len(cells) != width:
            chunk.complaints.append(Complaint(name, f"has {len(cells)} cells, the header has {width}"))
            return
        try:
            chunk.take(name, np.array([float(cells[place]) for place in places]))
        except ValueError:
            chunk.complaints.append(Complaint(name, "holds a cell that is no number"))


class ArrayFile:
    """The array `inputs` of an .npz, or its only one; it is read as a stream, and never unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self._member(archive)) as stream:
                shape, dtype = self._header(stream)
                row_bytes = dtype.itemsize * int(np.prod(shape[1:]))
                stream.seek(skip * row_bytes, 1)
                for start in range(skip, shape[0], size):
                    count = min(size, shape[0] - start)
                    content = stream.read(count * row_bytes)
                    values = np.frombuffer(content, dtype).reshape(count, *shape[1:])
                    chunk = Chunk()
                    for row, value in enumerate(values, start=start):
                        chunk.take(f"row {row}", value)
                    yield chunk
        except (zipfile.BadZipFile, ValueError, EOFError) as error:
            raise InputError(f"{self.path} cannot be read as an .npz ({error}).") from error

    def _member(self, archive: zipfile.ZipFile) -> str:
        names = archive.namelist()
        if "inputs.npy" in names:
            return "inputs.npy"
        if len(names) != 1:
            raise InputError(f"{self.path} holds {len(names)} arrays, none named inputs: {', '.join(names)}.")
        return names[0]

    def _header(self, stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, fortran_order, dtype = read(stream)
        if dtype.hasobject or dtype.kind not in "buif" or fortran_order or not shape:
            raise InputError(f"{self.path} must hold rows of plain numbers in C order, but holds {dtype}.")
        return shape, dtype


class ImageFolder:
    """Image files in the order of their names, as channels × height × width with values in [0, 1].

    What was done to the training pictures is done to these, if the model file knows it; otherwise only
    pictures of the model's own size are taken.
    """

    def __init__(self, path: Path, preprocessing: Preprocessing) -> None:
        if len(preprocessing.shape) != 3 or preprocessing.shape[0] not in (1, 3):
            raise InputError(f"the model takes rows of shape {preprocessing.shape}, which are no images.")
        self.shape, self.steps = preprocessing.shape, preprocessing.pictures
        self.files = picture_files(path)
        if not self.files:
            raise InputError(f"there are no images in {path}; known are {', '.join(sorted(SUFFIXES))}.")

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        for start in range(skip, len(self.files), size):
            chunk = Chunk()
            for file in self.files[start : start + size]:
                self._read(chunk, file)
            yield chunk

    def _read(self, chunk: Chunk, file: Path) -> None:
        channels, height, width = self.shape
        try:
            mode = "L" if channels == 1 else "RGB"
            pixels = self.steps(file) if self.steps else np.asarray(read_picture(file, mode))
        except UnreadableFileError as error:
            chunk.complaints.append(Complaint(file.name, f"is no image that can be read ({error})"))
            return
        if pixels.shape[:2] != (height, width):
            reason = f"has {pixels.shape[0]}×{pixels.shape[1]} pixels, the model takes {height}×{width}"
            chunk.complaints.append(Complaint(file.name, reason))
            return
        values = pixels.reshape(height, width, channels).transpose(2, 0, 1) / 255
        chunk.take(file.name, values)


def _needed(preprocessing: Preprocessing | None, what: str) -> Preprocessing:
    if preprocessing is None:
        raise InputError(
            f"the model file has no preprocessing, so it does not say how to read {what}. "
            "Save the model with preprocessing=Preprocessing(shape, mean, scale), or give an .npz."
        )
    return preprocessing
