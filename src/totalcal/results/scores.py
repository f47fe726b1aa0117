"""Any keys of records as a table: a row for each model with its settings, a column a key."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from totalcal.errors import InputError
from totalcal.records.aggregate import Summary, show, summarise
from totalcal.records.compare import bold
from totalcal.records.labels import by_column, column_title, common_settings, in_order, labelled
from totalcal.records.layout import Entry, Layout, Section
from totalcal.records.scoreboard import describe
from totalcal.records.store import Record

HELD_OUT = "held_out_"
_DIGITS = {"nll": 3, "error": 2, "ece": 2, "ece_100": 2}

Rows = Mapping[str, Mapping[str, Summary]]  # row → key → summary over seeds


def scores_layout(records: Iterable[Record], keys: Sequence[str]) -> Layout:
    """A section for each task and preset; bold as in Table 2."""
    sections = []
    for column, lines in by_column(records).items():
        rows, title = summaries(lines, keys), column_title(*column, common_settings(lines))
        best = {key: bold(score_of(key), {row: cells[key] for row, cells in rows.items()}) for key in keys}
        sections.append(Section(title, [_row(row, rows[row], best) for row in rows]))
    return Layout(_header(keys), sections)


def choice_layout(records: Iterable[Record], keys: Sequence[str]) -> Layout:
    """The settings of each model side by side; bold is the one with the lowest first key."""
    lines = list(records)
    rows = summaries(lines, keys)
    by_model: dict[str, list[str]] = {}
    for row in rows:
        by_model.setdefault(row.partition(" ")[0], []).append(row)
    chosen = {min(group, key=lambda row: rows[row][keys[0]].mean) for group in by_model.values()}
    best = dict.fromkeys(keys, chosen)
    return Layout(_header(keys), [Section("", [_row(row, rows[row], best) for row in rows])])


def summaries(records: Sequence[Record], keys: Sequence[str]) -> Rows:
    """What each row of one table has for each key, over seeds."""
    found: dict[str, dict[str, list[float]]] = {}
    for record in labelled(records):
        cells = found.setdefault(record["model"], {key: [] for key in keys})
        for key in keys:
            if key not in record:
                raise InputError(f"the record of {record['model']}, seed {record['seed']}, has no {key!r}.")
            cells[key].append(float(record[key]))
    return {row: {key: summarise(found[row][key]) for key in keys} for row in in_order(found)}


def score_of(key: str) -> str:
    """The score behind a key of a record.

    >>> score_of("held_out_nll")
    'nll'
    """
    return key.removeprefix(HELD_OUT)


def _header(keys: Sequence[str]) -> list[str]:
    titles = [describe(score_of(key)) for key in keys]
    marks = ["held-out " if key.startswith(HELD_OUT) else "" for key in keys]
    return [
        "",
        *(f"{mark}{title.title}{', %' * title.percent}" for mark, title in zip(marks, titles, strict=True)),
        "seeds",
    ]


def _row(label: str, cells: Mapping[str, Summary], best: Mapping[str, Any]) -> list[Entry]:
    shown = [
        Entry(show(score_of(key), summary, _DIGITS.get(score_of(key))), label in best[key])
        for key, summary in cells.items()
    ]
    return [Entry(label), *shown, Entry(str(next(iter(cells.values())).n))]
