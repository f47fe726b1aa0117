"""The user's cache: official files as fetched, and arrays decoded from them once, memory-mapped ever after.

    sets/NAME/…                   the official files
    decoded/NAME/SPLIT-KEY/       inputs.npy, labels.npy, about.json with their digests, statistics and a seal
    locks/NAME.lock               one process at a time fetches or decodes a set

Whatever is written is written beside its place and renamed: a reader sees all of it or nothing.
"""

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from totalcal.data import Arrays
from totalcal.errors import DataError
from totalcal.files import map_npy, read_json, sha256_of
from totalcal_lab.data.arrays import Statistics, statistics

DECODER = 1  # raised whenever a reader gives other arrays for the same files


class Decoded(NamedTuple):
    """A split as the cache holds it: its arrays and their statistics."""

    arrays: Arrays
    statistics: Statistics


def cache_folder() -> Path:
    """`TOTALCAL_CACHE`, or `totalcal` in the cache folder of the system's user."""
    from platformdirs import user_cache_path

    if chosen := os.environ.get("TOTALCAL_CACHE"):
        return Path(chosen).expanduser()
    return user_cache_path("totalcal", appauthor=False)


def set_folder(name: str) -> Path:
    """Where the official files of a set lie."""
    return cache_folder() / "sets" / name


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Only one process works on a set at a time."""
    from filelock import FileLock

    folder = cache_folder() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"the cache {cache_folder()} cannot be written: {error}. Set TOTALCAL_CACHE."
        ) from error
    with FileLock(folder / f"{name}.lock"):
        yield


@contextmanager
def replacing(final: Path) -> Iterator[Path]:
    """A new folder to fill, put in the place of `final` if all goes well and removed if not."""
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{final.name}-", dir=final.parent) as scratch:
        fresh = Path(scratch) / final.name
        fresh.mkdir()  # with the rights of any folder: `scratch` itself is closed to others
        yield fresh
        shutil.rmtree(final, ignore_errors=True)
        fresh.rename(final)


def decoded_folder(name: str, split: str, files: list[Path]) -> Path:
    """Where the arrays of a split belong: files that change in size, time or place give another folder."""
    key = hashlib.sha256(repr((DECODER, [_state(file) for file in files])).encode()).hexdigest()[:16]
    return cache_folder() / "decoded" / name / f"{split}-{key}"


def _state(path: Path) -> tuple[str, int, int]:
    """Path, size and time of a file; for a folder of files a digest of theirs takes the place of the size."""
    found = path.stat()
    if not path.is_dir():
        return str(path.resolve()), found.st_size, found.st_mtime_ns
    with os.scandir(path) as entries:
        inside = sorted((each.name, each.stat().st_size, each.stat().st_mtime_ns) for each in entries)
    digest = hashlib.sha256(repr(inside).encode()).digest()
    return str(path.resolve()), int.from_bytes(digest[:8], "big"), found.st_mtime_ns


def read_decoded(folder: Path) -> Decoded | None:
    """The arrays if they and what is said of them are unharmed; harmed ones are removed."""
    try:
        about = read_json(folder / "about.json")
        if about.pop("seal") != _seal(about):
            raise ValueError("about.json")
        for part in Arrays._fields:
            if sha256_of(folder / f"{part}.npy") != about[part]:
                raise ValueError(part)
        return _open(folder, Statistics(tuple(about["mean"]), tuple(about["std"])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DataError):
        shutil.rmtree(folder, ignore_errors=True)
        return None


def write_decoded(folder: Path, arrays: Arrays) -> Decoded:
    """Arrays, their digests and their statistics; what is given back is mapped from the files."""
    known = statistics(arrays.inputs)
    with replacing(folder) as fresh:
        about: dict[str, Any] = known._asdict()
        for part, array in arrays._asdict().items():
            _save(fresh / f"{part}.npy", array)
            about[part] = sha256_of(fresh / f"{part}.npy")
        (fresh / "about.json").write_text(json.dumps({**about, "seal": _seal(about)}))
    return _open(folder, known)


def _save(path: Path, array: NDArray[Any]) -> None:
    """`np.save`; where it says "392000 requested and 16256 written" the disk is full, and we say that."""
    try:
        np.save(path, array)
    except OSError as error:
        if error.errno is not None:
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error


def _open(folder: Path, known: Statistics) -> Decoded:
    inputs, labels = (map_npy(folder / f"{part}.npy") for part in Arrays._fields)
    return Decoded(Arrays(inputs, labels), known)


def _seal(about: dict[str, Any]) -> str:
    """A digest of digests and statistics, so that neither is believed once it was changed."""
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
