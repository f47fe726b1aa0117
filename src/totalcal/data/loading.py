"""`load`: a data set by name as arrays, wherever it is, decoded once."""

import logging
from pathlib import Path

from totalcal.data.arrays import Arrays
from totalcal.data.cache import (
    Decoded,
    decoded_folder,
    locked,
    read_decoded,
    statistics,
    write_decoded,
)
from totalcal.data.catalogue import CATALOGUE
from totalcal.data.description import DataSet
from totalcal.data.integrity import resolve
from totalcal.data.sources import Found, Report, candidates, fetch, locate, verify
from totalcal.errors import DataError, UnknownNameError

_log = logging.getLogger(__name__)


def load(name: str, split: str = "test", data_dir: str | Path | None = None) -> Arrays:
    """Inputs and labels of a set; fetched first if it is nowhere on this machine.

    Images are uint8 [n, height, width(, 3)], texts int64 [n, length], tables float32 [n, columns].

    >>> images, labels = load("digits", "test")
    >>> images.shape, images.dtype.name, labels.shape
    ((500, 8, 8), 'uint8', (500,))
    """
    return load_with_statistics(name, split, data_dir).arrays


def load_with_statistics(
    name: str, split: str = "test", data_dir: str | Path | None = None, report: Report = _log.info
) -> Decoded:
    """The same with mean and deviation a channel, which are worked out once as well."""
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
    folder = decoded_folder(dataset.name, split, [resolve(found.folder, raw) for raw in files])
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
