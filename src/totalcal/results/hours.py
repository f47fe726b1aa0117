"""How long the training behind a table took; judging is not counted."""

from collections.abc import Iterable

from totalcal.records.labels import by_column, column_title, common_settings, in_order
from totalcal.records.layout import Entry, Layout, Section
from totalcal.records.store import Record


def hours_layout(lines: Iterable[Record]) -> Layout:
    """A row a model: runs, epochs, hours in all."""
    sections = [
        Section(column_title(*column, common_settings(runs)), _rows(runs))
        for column, runs in by_column(lines).items()
    ]
    return Layout(["", "runs", "epochs", "hours"], sections)


def _rows(runs: Iterable[Record]) -> list[list[Entry]]:
    by_model: dict[str, list[Record]] = {}
    for run in runs:
        by_model.setdefault(run["model"], []).append(run)
    rows = [_row(model, by_model[model]) for model in in_order(by_model)]
    return [*rows, _row("in all", [run for found in by_model.values() for run in found])]


def _row(label: str, runs: list[Record]) -> list[Entry]:
    epochs, seconds = sum(run["epochs"] for run in runs), sum(run["seconds"] for run in runs)
    return [Entry(label), *map(Entry, (str(len(runs)), str(epochs), f"{seconds / 3600:.1f}"))]
