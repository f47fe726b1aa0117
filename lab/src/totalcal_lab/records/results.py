"""Table 2 from records: mean ± standard deviation over seeds, task by task, beside the paper's figures."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from totalcal.report import ASPECTS, Entry, Group, Record, Summary, Table, show
from totalcal_lab.records import paper
from totalcal_lab.records.bold import bold, in_words
from totalcal_lab.records.labels import (
    aggregate,
    by_column,
    column_title,
    common_settings,
    flat_line,
    in_order,
    seeds_in_words,
    with_row_labels,
)

TITLES = {
    "error": "Test error, %",
    "ece": "ECE, %, 15 bins",
    "ece_100": "ECE, %, 100 bins",
    "nll": "Test NLL",
    "auroc": "OOD AUROC, %",
    "auroc_worst": "OOD AUROC, %, worst set",
}
"""The paper's four, with the ECE at our bins and at its own, and the worst set of a panel."""

_NOTE = "Mean ± standard deviation over seeds; bold or *: within three standard deviations of the best."
_OOD_NOTE = "Out-of-distribution (OOD) is the positive class; its score is the predictive entropy."

NO_DRAWS = "no draws"
"""Of models with nothing random; the notes of a table name what the others were judged by."""


class Figure(NamedTuple):
    """One measured number, and the paper's where it has one."""

    summary: Summary
    bold: bool
    paper: paper.Printed | None


class ResultColumn(NamedTuple):
    """What was run on one task with one preset: score → row label → figure."""

    task: str
    preset: str
    settings: dict[str, Any]
    ood: str
    figures: dict[str, dict[str, Figure]]
    words: str
    prediction: str

    @property
    def title(self) -> str:
        return column_title(self.task, self.preset, self.settings)

    @property
    def has_paper(self) -> bool:
        return any(figure.paper for figures in self.figures.values() for figure in figures.values())

    @property
    def seeds(self) -> str:
        return seeds_in_words({label: each.summary.n for label, each in self.figures["error"].items()})

    @property
    def labels(self) -> list[str]:
        return in_order(label for figures in self.figures.values() for label in figures)


def result_columns(records: Iterable[Record]) -> list[ResultColumn]:
    """A column for each task and preset."""
    return [_column(task, preset, runs) for (task, preset), runs in by_column(records).items()]


def result_table(columns: Sequence[ResultColumn]) -> Table:
    """The paper's Table 2: one group per score, one row per model."""
    header = ["", *(title for column in columns for title in _titles(column))]
    labels = in_order(label for column in columns for label in column.labels)
    groups = [Group(TITLES[score], _rows(score, labels, columns)) for score in TITLES]
    ood = [_OOD_NOTE] if any(column.ood for column in columns) else []
    words = [
        f"{column.title}, {column.seeds}, predicted by {column.prediction}: {column.words}"
        for column in columns
    ]
    return Table(header, [group for group in groups if group.rows], [_NOTE, *ood, *words])


def result_lines(columns: Sequence[ResultColumn]) -> list[dict[str, Any]]:
    """The same figures as flat lines, for other programs."""
    return [
        {
            **flat_line(column, score, label, figure.summary),
            "seeds": figure.summary.n,
            "bold": figure.bold,
            "paper_mean": figure.paper.summary.mean if figure.paper else None,
            "paper_std": figure.paper.summary.std if figure.paper else None,
        }
        for column in columns
        for score, figures in column.figures.items()
        for label, figure in figures.items()
    ]


def _column(task: str, preset: str, records: Sequence[Record]) -> ResultColumn:
    named = with_row_labels(records)
    models = {label: scores for (label,), scores in aggregate(named, by=("model",)).items()}
    figures = {}
    for score in TITLES:
        summaries = {label: models[label][score] for label in in_order(models) if score in models[label]}
        best, theirs = bold(score, summaries), paper.results().get((task, score), {})
        figures[score] = {
            label: Figure(summary, label in best, theirs.get(label)) for label, summary in summaries.items()
        }
    sets = [key.partition("/")[2] for key in records[0] if key.startswith("auroc/")]
    if len(sets) < 2:
        del figures["auroc_worst"]
    words = in_words(models, {name: score for name, score in ASPECTS.items() if figures[score]})
    found = dict.fromkeys(record["prediction"] for record in records)
    prediction = " and ".join(each for each in found if each != NO_DRAWS or len(found) == 1)
    settings = common_settings(records)
    return ResultColumn(task, preset, settings, sets[0] if sets else "", figures, words, prediction)


def _titles(column: ResultColumn) -> list[str]:
    """Short, as settings may be many: the notes have them."""
    title = f"{column.task} ({column.preset})"
    return [title, "the paper's"] if column.has_paper else [title]


def _rows(score: str, labels: Sequence[str], columns: Sequence[ResultColumn]) -> list[list[Entry]]:
    rows = []
    if score == "auroc" and any(column.ood for column in columns):
        rows.append([Entry("OOD data"), *(entry for column in columns for entry in _ood_entries(column))])
    for label in labels:
        found = [column.figures.get(score, {}).get(label) for column in columns]
        if any(found):
            entries = (_entries(score, figure, column) for figure, column in zip(found, columns, strict=True))
            rows.append([Entry(label), *(entry for pair in entries for entry in pair)])
    return rows


def _ood_entries(column: ResultColumn) -> list[Entry]:
    theirs = paper.OOD_SETS.get(column.task, "")
    return [Entry(column.ood), Entry(theirs)] if column.has_paper else [Entry(column.ood)]


def _entries(score: str, figure: Figure | None, column: ResultColumn) -> list[Entry]:
    ours = Entry("") if figure is None else Entry(show(score, figure.summary), figure.bold)
    if not column.has_paper:
        return [ours]
    theirs = figure.paper if figure else None
    return [ours, Entry(show(score, theirs.summary), theirs.bold) if theirs else Entry("")]
