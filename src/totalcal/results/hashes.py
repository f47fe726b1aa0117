"""What a table was made of: the hash of every run's configuration, and of every set of data."""

from collections.abc import Iterable, Mapping, Sequence

from totalcal.records.labels import by_column, column_title, common_settings, in_order, labelled
from totalcal.records.layout import Entry, Layout, Section
from totalcal.records.store import Record

_DATA = "sha256/"
_NOTE = "The first 16 digits of SHA-256, by seed; a set shows one hash where all runs saw the same rows."

Hashes = Mapping[str, Sequence[str]]


def hashes_layout(records: Iterable[Record]) -> Layout:
    """A row a model with the configurations of its seeds, a row a set of data."""
    sections = []
    for column, lines in by_column(records).items():
        title = column_title(*column, common_settings(lines))
        sections += [
            Section(f"{title}, configurations by seed", _rows(configurations(lines))),
            Section(f"{title}, data", _rows(data_hashes(lines))),
        ]
    return Layout(["", "hashes"], sections, [_NOTE])


def configurations(records: Sequence[Record]) -> Hashes:
    """Each model, with its settings, and the hashes of its seeds."""
    found: dict[str, list[str]] = {}
    for record in _by_seed(labelled(records)):
        found.setdefault(record["model"], []).append(record["config"])
    return {model: found[model] for model in in_order(found)}


def data_hashes(records: Sequence[Record]) -> Hashes:
    """Each set of data and the hashes it had by seed: one, where all seeds saw the same rows."""
    found: dict[str, list[str]] = {}
    for record in _by_seed(records):
        for key in (key for key in record if key.startswith(_DATA)):
            hashes = found.setdefault(key.removeprefix(_DATA), [])
            if record[key] not in hashes:
                hashes.append(record[key])
    return found


def _by_seed(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: record["seed"])


def _rows(hashes: Hashes) -> list[list[Entry]]:
    return [[Entry(name), Entry(" ".join(values))] for name, values in hashes.items()]
