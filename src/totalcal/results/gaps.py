"""How far our figures lie from the paper's, in standard deviations."""

import math
from collections.abc import Iterable

from totalcal.records import paper
from totalcal.records.aggregate import Summary, show
from totalcal.records.layout import Entry, Layout, Section
from totalcal.records.scoreboard import better, describe
from totalcal.records.store import Record
from totalcal.records.table import ResultColumn, result_columns

SCORES = ("error", "nll", "ece_100", "auroc")
"""What the paper's Table 2 prints."""

_NOTE = (
    "Ours − the paper's, in units of √((s² + s′²)/2): s over our seeds, s′ over the paper's ten, at least "
    "what its rounding hides (0.29 of the last digit). ▲ better than the paper's, ▼ worse; then ours; theirs."
)


def gap(score: str, ours: Summary, theirs: Summary) -> float:
    """(ours − theirs) / √((s² + s′²)/2); theirs alone where we have one seed.

    >>> round(gap("error", Summary(0.081, 0.002, 5), Summary(0.079, 0.002, 10)), 6)
    1.0
    """
    spread = max(theirs.std, _hidden_by_rounding(score))
    if math.isfinite(ours.std):
        spread = math.sqrt((ours.std**2 + spread**2) / 2)
    return (ours.mean - theirs.mean) / spread


def gap_layout(records: Iterable[Record]) -> Layout:
    """A row for each model that the paper has, column by column of the records; a section each."""
    sections = [Section(column.title, _rows(column)) for column in result_columns(records)]
    titles = [describe(score).title for score in SCORES]
    return Layout(["", *titles], [section for section in sections if section.rows], [_NOTE])


def _rows(column: ResultColumn) -> list[list[Entry]]:
    rows = []
    for label in column.labels:
        entries = [_entry(column, score, label) for score in SCORES]
        if any(entry.text for entry in entries):
            rows.append([Entry(label), *entries])
    return rows


def _entry(column: ResultColumn, score: str, label: str) -> Entry:
    theirs = paper.results().get((column.task, score), {}).get(label.partition(" ")[0])
    figure = column.figures.get(score, {}).get(label)
    if theirs is None or figure is None:
        return Entry("")
    ours, distance = figure.summary, gap(score, figure.summary, theirs.summary)
    side = "▲" if better(score, ours.mean, theirs.summary.mean) else "▼"
    number = f"{distance:+.1f}".replace("-", "−")
    return Entry(f"{side} {number} ({show(score, ours)}; {show(score, theirs.summary)})")


def _hidden_by_rounding(score: str) -> float:
    """The standard deviation of what rounding to the last printed digit takes away: a digit / √12."""
    last_digit = 0.001 if describe(score).percent else 0.01
    return last_digit / math.sqrt(12)
