"""Where rows come from: a table, an array in an .npz, pictures; a chunk at a time, without torch.

| given | rows |
|---|---|
| `.csv`, `.parquet`, `.arrow`, `.feather` | of a table, by column (`predicting.tables`) |
| `.npz` | of its array `inputs`, or of its only one; of all of them, for a model of several tensors |
| a folder | its pictures, those of sub-folders too |
| `.csv` for a model of pictures | a manifest: the pictures that its column `path` names |
"""

import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import StringIO
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from totalcal.data.preprocessing import SUFFIXES, PictureSteps, pictures_below
from totalcal.errors import InputError, ShapeError, TotalcalError, UnreadableFileError
from totalcal.files.budget import check_room, keep_to, share
from totalcal.files.reading import (
    LARGE_PICTURE,
    column_places,
    csv_records,
    npy_header,
    npz_member,
    opened_npz,
    read_picture,
    read_text,
    unreadable,
)

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
FileState = tuple[str, int, int]

LABELS = "labels", "label"
"""What labels among the arrays of an .npz are called."""
_INPUTS = "inputs"
_PATH = "path"
_COPIES = 4  # of a chunk of rows, on the way from a file to the model's precision


class Complaint(NamedTuple):
    """A row that cannot be used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Chunk:
    """Some rows in order: the good ones by name and value, the bad ones by name and reason."""

    names: list[str]
    values: Array
    complaints: list[Complaint]

    @classmethod
    def checked(
        cls, names: list[str], values: Array, reasons: Mapping[int, str], columns: Sequence[str] = ()
    ) -> "Chunk":
        """Of rows of which some are bad for a reason, by position, and others because they are not finite.

        With the names of its `columns`, a complaint says which of them it is about.

        >>> chunk = Chunk.checked(["a", "b", "c"], np.array([[1.0], [np.nan], [0.0]]), {2: "is empty"})
        >>> chunk.names, [complaint.name for complaint in chunk.complaints]
        (['a'], ['b', 'c'])
        """
        fields = [values[name] for name in values.dtype.names] if values.dtype.names else [values]
        finite = np.ones(len(values), dtype=bool)
        for field in fields:  # those of a row of several arrays
            if field.dtype.kind == "f":
                finite &= np.isfinite(field.reshape(len(field), -1)).all(axis=1)
        if finite.all() and not reasons:
            return cls(names, values, [])
        bad = {}
        for place in np.flatnonzero(~finite):
            column = (
                f" in the column {columns[int(np.isfinite(values[place]).argmin())]!r}" if columns else ""
            )
            bad[int(place)] = f"holds NaN or infinity{column}"
        bad |= dict(reasons)
        good = [place for place in range(len(names)) if place not in bad]
        complaints = [Complaint(names[place], bad[place]) for place in sorted(bad)]
        return cls([names[place] for place in good], values[good], complaints)

    @property
    def rows(self) -> int:
        return len(self.names) + len(self.complaints)


class RowFormat(Protocol):
    """What the rows of a model are: a `totalcal.Preprocessing`, or what an exported program says."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def columns(self) -> tuple[str, ...] | None: ...

    @property
    def pictures(self) -> PictureSteps | None: ...


class FileRows(Protocol):
    """Rows in a fixed order, of so many numbers each."""

    @property
    def width(self) -> int: ...

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        """All rows after the first `skip`, so many at a time."""

    def state(self) -> list[FileState]:
        """Changes when the rows do: name, size and time of every file that they are read from."""


def rows_of(
    path: Path, preprocessing: RowFormat | None, *, manifests: bool = False, workers: int = 0
) -> FileRows:
    """The reader for a file or a folder.

    Args:
        path: A folder of pictures, an .npz, or a table: .csv, .parquet, .arrow.
        preprocessing: What the model takes; only an .npz can do without.
        manifests: Whether a .csv may name the pictures to read. Never for a file of unknown origin.
        workers: Processes that decode pictures.

    Raises:
        InputError: If there is nothing to read at the path, or nothing says how to read it.
    """
    from totalcal.files.predicting.tables import ColumnFile, TableFile

    kind = path.suffix.lower()
    if path.is_dir():
        names = pictures_below(path)
        if not names:
            raise InputError(f"there are no images in {path}; known are {', '.join(sorted(SUFFIXES))}.")
        return Pictures(path, names, _needed(preprocessing, "a folder of images"), workers)
    if not path.is_file():
        raise InputError(f"there is no file or folder {path}.")
    if kind == ".npz":
        return ArrayFile(path, None if preprocessing is None else preprocessing.shape)
    if kind == ".csv" and manifests and preprocessing is not None and len(preprocessing.shape) == 3:
        return Pictures(path.parent, _listed(path), preprocessing, workers, manifest=path)
    if kind == ".csv":
        return TableFile(path, _needed(preprocessing, "a table"))
    if kind in ColumnFile.KINDS:
        return ColumnFile(path, _needed(preprocessing, "a table"))
    known = ", ".join(("a .csv", *ColumnFile.KINDS, ".npz"))
    raise InputError(f"inputs must be a folder of images, {known}, but {path} is none of these.")


class ArrayFile:
    """The array `inputs` of an .npz, or its only one; they are read as streams, and never unpickled.

    Without either, a row has all arrays as its fields, for a model of several tensors: by name, or by
    position where they were saved without names. Labels, named as in a batch, are left out.
    """

    def __init__(self, path: Path, shape: tuple[int, ...] | None = None) -> None:
        self.path, self.shape = path, shape
        with self._opened() as arrays:
            self.width = sum(prod(array.shape[1:]) for array in arrays)

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        with self._opened() as arrays:
            rows = arrays[0].shape[0]
            for array in arrays:
                array.stream.seek(skip * array.row_bytes, 1)
            for start in range(skip, rows, size):
                count = min(size, rows - start)
                check_room(
                    _COPIES * count * sum(array.row_bytes for array in arrays), f"a chunk of {self.path}"
                )
                parts = {array.name: array.next(count) for array in arrays}
                values = structured(parts) if arrays[0].name else parts[""]
                yield Chunk.checked(row_names(start, count), values, {})

    def state(self) -> list[FileState]:
        return [file_state(self.path, self.path.name)]

    @contextmanager
    def _opened(self) -> Iterator[list["_ArrayStream"]]:
        with opened_npz(self.path) as archive, ExitStack() as streams:
            arrays = [
                self._begun(streams.enter_context(npz_member(archive, member)), member.file_size, name)
                for name, member in self._members(archive).items()
            ]
            if len({array.shape[0] for array in arrays}) > 1:
                lengths = ", ".join(f"{array.name} {array.shape[0]}" for array in arrays)
                raise InputError(f"the arrays of {self.path} need as many rows, but have: {lengths}.")
            yield arrays

    def _begun(self, stream: IO[bytes], size: int, name: str) -> "_ArrayStream":
        shape, fortran_order, dtype = npy_header(stream, size)
        if dtype.kind not in "buif" or fortran_order or not shape or 0 in shape[1:]:
            order = "Fortran" if fortran_order else "C"
            raise InputError(
                f"{self.path} must hold rows of plain numbers in C order, but holds {dtype} of shape "
                f"{shape} in {order} order. Save it by numpy.savez(path, numpy.ascontiguousarray(rows))."
            )
        if self.shape is not None and shape[1:] != tuple(self.shape):
            raise ShapeError(
                f"the model takes rows of shape {tuple(self.shape)}, but those of {self.path} have "
                f"{shape[1:]}."
            )
        return _ArrayStream(name, stream, shape, dtype)

    def _members(self, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
        """What to read, by the names of the model's inputs."""
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        found = input_names(members)
        if not found or (self.shape is not None and len(found) > 1):
            shown = ", ".join(list(members)[:10])
            raise InputError(f"{self.path} holds {len(members)} arrays, none named inputs: {shown}.")
        return {name: members[member] for name, member in found.items()}


def input_names(arrays: Iterable[str]) -> dict[str, str]:
    """Which arrays of an .npz are a model's inputs: its names for them, "" for an only one, and theirs.

    >>> input_names(["inputs", "labels"]), input_names(["ids", "mask", "labels"])
    ({'': 'inputs'}, {'ids': 'ids', 'mask': 'mask'})
    >>> input_names(["arr_0", "arr_1"])  # numpy.savez without names
    {'0': 'arr_0', '1': 'arr_1'}
    """
    names = list(arrays)
    if _INPUTS in names:
        return {"": _INPUTS}
    found = [name for name in names if name not in LABELS] or names
    if len(found) == 1:
        return {"": found[0]}
    numbered = [f"arr_{place}" for place in range(len(found))]
    if set(found) == set(numbered):
        return {str(place): name for place, name in enumerate(numbered)}
    return {name: name for name in found}


class _ArrayStream(NamedTuple):
    """An array of a file behind its header; it has no name if it is the only one."""

    name: str
    stream: IO[bytes]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * prod(self.shape[1:])

    def next(self, count: int) -> Array:
        content = bytearray(self.stream.read(count * self.row_bytes))  # torch wants to be able to write
        return np.frombuffer(content, self.dtype).reshape(count, *self.shape[1:])


def structured(parts: Mapping[str, Array]) -> Array:
    """Rows of several arrays as one array with a field for each, which is cut and joined like any other.

    >>> structured({"ids": np.zeros((2, 3), int), "mask": np.ones((2, 3), int)})["mask"].shape
    (2, 3)
    """
    form = np.dtype([(name, part.dtype, part.shape[1:]) for name, part in parts.items()])
    rows = np.empty(len(next(iter(parts.values()))), form)
    for name, part in parts.items():
        rows[name] = part
    return rows


class Pictures:
    """Picture files in order, as channels × height × width with values in [0, 1].

    What was done to the training pictures is done to these, if the model file knows it; otherwise only
    pictures of the model's own size are taken. With `workers` they are decoded in other processes, to the
    same bits.
    """

    def __init__(
        self,
        root: Path,
        names: Sequence[str],
        preprocessing: RowFormat,
        workers: int = 0,
        manifest: Path | None = None,
    ) -> None:
        if len(preprocessing.shape) != 3 or preprocessing.shape[0] not in (1, 3):
            raise InputError(f"the model takes rows of shape {preprocessing.shape}, which are not images.")
        self.root, self.names, self.workers, self.manifest = root, names, workers, manifest
        self.width = prod(preprocessing.shape)
        self._decode = _Decoder(root, names, preprocessing.shape, preprocessing.pictures)

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        starts = range(skip, len(self.names), size)
        spans = [range(start, min(start + size, len(self.names))) for start in starts]
        decoded = self._pooled(spans) if self.workers else map(self._decode.__getitem__, spans)
        for span, (pixels, reasons) in zip(spans, decoded, strict=True):
            values = pixels.transpose(0, 3, 1, 2) / 255
            yield Chunk.checked([_shown(self.names[place]) for place in span], values, reasons)

    def state(self) -> list[FileState]:
        manifests = [] if self.manifest is None else [file_state(self.manifest, self.manifest.name)]
        return manifests + [file_state(self.root / name, name) for name in self.names]

    def _pooled(self, spans: Sequence[range]) -> Iterator["Decoded"]:
        import torch
        from torch.utils.data import DataLoader

        workers = min(self.workers, max(len(spans), 1))
        loader: DataLoader[Decoded | TotalcalError] = DataLoader(
            _InProcess(self._decode, share(workers)),  # type: ignore[arg-type]  # a data set by what it can
            sampler=spans,
            batch_size=None,
            num_workers=workers,
            collate_fn=_as_it_is,
            generator=torch.Generator(),  # for the seeds of its workers: the user's own is left alone
        )
        try:
            for decoded in loader:
                if isinstance(decoded, TotalcalError):
                    raise InputError(f"{decoded} Or take fewer processes (--workers 0).") from decoded
                yield decoded
        except RuntimeError as error:  # a worker that was killed, most often for want of memory
            raise TotalcalError(
                f"decoding pictures in {self.workers} processes failed ({error}). Try --workers 0."
            ) from error


Decoded = tuple[npt.NDArray[np.uint8], dict[int, str]]


@dataclass(frozen=True)
class _Decoder:
    """Spans of pictures, by their places: pixels, black where a picture is bad, and the reasons for these."""

    root: Path
    names: Sequence[str]
    shape: tuple[int, ...]
    steps: PictureSteps | None

    def __getitem__(self, span: Any) -> Decoded:
        channels, height, width = self.shape
        pixels, reasons = np.zeros((len(span), height, width, channels), np.uint8), {}
        for place, row in enumerate(span):
            try:
                pixels[place] = self._read(self.root / self.names[row])
            except UnreadableFileError as error:
                reasons[place] = _shown(f"is not a readable image ({error})")
            except _OtherSizeError as error:
                reasons[place] = str(error)
        return pixels, reasons

    def _read(self, file: Path) -> npt.NDArray[np.uint8]:
        channels, height, width = self.shape
        mode = "L" if channels == 1 else "RGB"
        pixels = self.steps(file) if self.steps else np.asarray(read_picture(file, mode, LARGE_PICTURE))
        if pixels.shape[:2] != (height, width):
            raise _OtherSizeError(
                f"has {pixels.shape[0]}×{pixels.shape[1]} pixels, the model takes {height}×{width}"
            )
        return pixels.reshape(height, width, channels)


class _OtherSizeError(Exception):
    """A picture whose size is not the model's, where the file does not say how to bring it there."""


def _shown(name: str) -> str:
    r"""A name of a file as text; bytes that are none are spelled out.

    >>> _shown("a\udcff.png")
    'a\\xff.png'
    """
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


@dataclass(frozen=True)
class _InProcess:
    """The same in another process, within its share of the budget; an error is given back whole."""

    decode: _Decoder
    most: int

    def __getitem__(self, span: Any) -> Decoded | TotalcalError:
        keep_to(self.most)
        try:
            return self.decode[span]
        except TotalcalError as error:
            return error


def _as_it_is(decoded: Any) -> Any:
    return decoded


def row_names(start: int, count: int) -> list[str]:
    """What messages call rows that have no names of their own."""
    return [f"row {row}" for row in range(start, start + count)]


def file_state(path: Path, name: str) -> FileState:
    """Name, size and time of a file; one that is not there has none."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # the latter where a name holds what no name can
        return name, -1, -1
    return name, found.st_size, found.st_mtime_ns


def _listed(manifest: Path) -> list[str]:
    """The column `path` of a manifest, or its only one; relative paths start at the manifest's folder."""
    with unreadable(manifest, "a manifest in CSV"):
        records = csv_records(StringIO(read_text(manifest)), manifest)
        header, *lines = [fields for fields in records if fields] or [[]]
    if _PATH not in header and len(header) != 1:
        raise InputError(
            f"the model takes pictures, so {manifest} must name them in a column {_PATH!r}; it has "
            f"{', '.join(header) or 'no header'}."
        )
    place = column_places(manifest, header, [_PATH])[0] if _PATH in header else 0
    names = [fields[place] if place < len(fields) else "" for fields in lines]
    if not names:
        raise InputError(f"{manifest} names no pictures.")
    return names


def _needed(preprocessing: RowFormat | None, what: str) -> RowFormat:
    if preprocessing is None:
        raise InputError(
            f"the model file has no preprocessing, so it does not say how to read {what}. "
            "Save the model with preprocessing=Preprocessing(shape, mean, scale), or give an .npz."
        )
    return preprocessing
