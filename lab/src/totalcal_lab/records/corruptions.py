"""Table 4 from records: error and ECE by severity, over types of corruption, beside the paper's figures."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from totalcal.errors import InputError
from totalcal.report import Entry, Group, Record, Summary, Table, summarise
from totalcal_lab.records import paper
from totalcal_lab.records.bold import bold
from totalcal_lab.records.folders import RunFolder, finished_runs
from totalcal_lab.records.labels import (
    by_column,
    column_title,
    common_settings,
    flat_line,
    in_order,
    seeds_in_words,
    with_row_labels,
)
from totalcal_lab.records.store import read_records

SCORES = {"error": "error, %", "ece": "ECE, %, 15 bins", "ece_100": "ECE, %, 100 bins"}


class CorruptionColumn(NamedTuple):
    """One task with one preset: (severity, score) → row → summary over types, each a mean over seeds."""

    task: str
    preset: str
    settings: dict[str, Any]
    types: int
    examples: int
    seeds: dict[str, int]
    summaries: dict[tuple[int, str], dict[str, Summary]]

    @property
    def title(self) -> str:
        return column_title(self.task, self.preset, self.settings)

    @property
    def has_paper(self) -> bool:
        return any(task == self.task for task, _, _ in paper.corruptions())


def under_corruption(runs: Iterable[RunFolder]) -> list[Record]:
    """The lines of these runs, one for each type and severity: of several the one on most images."""
    files = [run.corruptions_file for run in runs if run.corruptions_file.exists()]
    found: dict[tuple[Any, ...], Record] = {}
    for line in (line for file in files for line in read_records(file)):
        place = (line["config"], line["corruption"], line["severity"])
        if place not in found or found[place]["examples"] < line["examples"]:
            found[place] = line
    return list(found.values())


def corruption_records(root: Path) -> list[Record]:
    """Those of every finished run beneath a folder."""
    found = under_corruption(finished_runs(root))
    if not found:
        raise InputError(
            f"no run in {root} was judged under corruption. Run: totalcal-lab run TASK --corruptions"
        )
    return found


def corruption_columns(records: Iterable[Record]) -> list[CorruptionColumn]:
    """One column per task and preset, from the lines of `corruptions.jsonl`."""
    columns = by_column(records).items()
    return [_column(task, preset, _comparable(lines)) for (task, preset), lines in columns]


def corruption_table(columns: Sequence[CorruptionColumn]) -> Table:
    """The paper's Table 4: one group per severity, one row per model."""
    header = ["", *(title for column in columns for title in _titles(column))]
    severities = sorted({severity for column in columns for severity, _ in column.summaries})
    groups = [Group(f"Severity {severity}", _rows(severity, columns)) for severity in severities]
    return Table(header, groups, _notes(columns))


def corruption_lines(columns: Sequence[CorruptionColumn]) -> list[dict[str, Any]]:
    """The same as flat lines, for other programs; `std` is over types."""
    return [
        {
            **flat_line(column, score, label, summary, severity=severity),
            "types": summary.n,
            "examples": column.examples,
        }
        for column in columns
        for (severity, score), summaries in column.summaries.items()
        for label, summary in summaries.items()
    ]


def _comparable(records: Sequence[Record]) -> Sequence[Record]:
    """Those of the severities at which every run has met every type: other means cannot be compared.

    All of them, where there is no such severity yet.
    """
    met = {(line["config"], line["corruption"], line["severity"]) for line in records}
    runs, types, severities = ({place[axis] for place in met} for axis in range(3))
    whole = {
        severity
        for severity in severities
        if all((run, kind, severity) in met for run in runs for kind in types)
    }
    return [line for line in records if line["severity"] in whole] or records


def _column(task: str, preset: str, records: Sequence[Record]) -> CorruptionColumn:
    over_seeds: dict[tuple[int, str], dict[str, dict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for line in with_row_labels(records):
        for score in SCORES:
            place = over_seeds[line["severity"], score]
            place[line["model"]][line["corruption"]].append(line[score])
    summaries = {
        place: {
            label: summarise(summarise(values).mean for values in models[label].values())
            for label in in_order(models)
        }
        for place, models in sorted(over_seeds.items())
    }
    types = len({line["corruption"] for line in records})
    examples = min(line["examples"] for line in records)
    runs = Counter(
        model for model, _ in {(line["model"], line["config"]) for line in with_row_labels(records)}
    )
    seeds = {label: runs[label] for label in in_order(runs)}
    return CorruptionColumn(task, preset, common_settings(records), types, examples, seeds, summaries)


def _titles(column: CorruptionColumn) -> list[str]:
    ours = [f"{column.task} {title}" for title in SCORES.values()]
    return [*ours, "the paper's error", "the paper's ECE"] if column.has_paper else ours


def _rows(severity: int, columns: Sequence[CorruptionColumn]) -> list[list[Entry]]:
    found = [label for column in columns for label in column.summaries.get((severity, "error"), {})]
    return [
        [Entry(label), *(entry for column in columns for entry in _entries(severity, label, column))]
        for label in in_order(found)
    ]


def _entries(severity: int, label: str, column: CorruptionColumn) -> list[Entry]:
    entries = []
    for score in SCORES:
        summaries = column.summaries.get((severity, score), {})
        text = shown(summaries[label]) if label in summaries else ""
        entries.append(Entry(text, label in bold(score, summaries)))
    if column.has_paper:
        for score in ("error", "ece_100"):
            theirs = paper.corruptions().get((column.task, severity, score), {}).get(label)
            entries.append(Entry(shown(theirs.summary), theirs.bold) if theirs else Entry(""))
    return entries


def shown(summary: Summary) -> str:
    """Percent, with three standard deviations where there are several types.

    >>> shown(Summary(0.25, 0.01, 4))
    '25.0 ± 3.0'
    """
    spread = f" ± {300 * summary.std:.1f}" if math.isfinite(summary.std) else ""
    return f"{100 * summary.mean:.1f}{spread}"


def _notes(columns: Sequence[CorruptionColumn]) -> list[str]:
    return [
        "Mean ± three standard deviations over the types of corruption, each type a mean over seeds; "
        "the paper's ± does not say over what.",
        "Bold or *: within three standard deviations of the best.",
        *(
            f"{column.title}: {column.types} types, {column.examples} images, {seeds_in_words(column.seeds)}."
            for column in columns
        ),
    ]
