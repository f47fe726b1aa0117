"""Markdown pages with blocks that come from records: what stands between the marks is never typed by hand.

    <!-- results: table records/fashion.jsonl -->
    …
    <!-- end of results -->

A block asks for `NAME FILE ARGUMENTS`, the file relative to the page.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from totalcal.errors import InputError, UnknownNameError
from totalcal.files import write_whole
from totalcal.report import Entry, Group, Record, Summary, Table, better, describe, show, summarise
from totalcal_lab.records import paper
from totalcal_lab.records.bold import bold
from totalcal_lab.records.corruptions import corruption_columns, corruption_table
from totalcal_lab.records.domain import TABLES as DOMAIN_TABLES
from totalcal_lab.records.formats import as_markdown
from totalcal_lab.records.labels import by_column, column_title, common_settings, in_order, with_row_labels
from totalcal_lab.records.people import TERMS, people_table
from totalcal_lab.records.progress import corruptions_file, domain_file, timing_file
from totalcal_lab.records.results import ResultColumn, result_columns, result_table
from totalcal_lab.records.sizes import sizes_table
from totalcal_lab.records.store import read_lines, read_records

BlockWriter = Callable[[Path, Sequence[str]], str]
Rows = Mapping[str, Mapping[str, Summary]]  # row → key → summary over seeds
Hashes = Mapping[str, Sequence[str]]

PAPER_SCORES = ("error", "nll", "ece_100", "auroc")
"""What the paper's Table 2 prints."""

HELD_OUT = "held_out_"
_DATA = "sha256/"
_DIGITS = {"nll": 3, "error": 2, "ece": 2, "ece_100": 2}
_HASH_NOTE = "The first 16 digits of SHA-256, by seed; a set shows one hash where all runs saw the same rows."
_GAP_NOTE = (
    "Ours − the paper's, in units of √((s² + s′²)/2): s over our seeds, s′ over the paper's ten, at least "
    "what its rounding hides (0.29 of the last digit). ▲ better than the paper's, ▼ worse; in brackets ours; "
    "theirs, or theirs alone. Hours of one run on one core."
)


def _table(records: Path, arguments: Sequence[str]) -> str:
    """The paper's Table 2, with its figures beside ours."""
    return as_markdown(result_table(result_columns(read_records(records))))


def _verdict(records: Path, arguments: Sequence[str]) -> str:
    """Who is not beaten, in words, of the models named; of all of them if none is."""
    lines = [record for record in read_records(records) if not arguments or record["model"] in arguments]
    return "\n\n".join(column.words for column in result_columns(lines))


def _scores(records: Path, arguments: Sequence[str]) -> str:
    """The keys named, of those tasks that have all of them."""
    lines = [record for record in read_records(records) if all(key in record for key in arguments)]
    if not lines:
        raise InputError(f"no record in {records} has all of: {', '.join(arguments)}.")
    return as_markdown(scores_table(lines, arguments))


def _choice(records: Path, arguments: Sequence[str]) -> str:
    return as_markdown(choice_table(read_records(records), arguments))


def _paper(records: Path, arguments: Sequence[str]) -> str:
    """The paper's Table 2 beside ours; the file named after the records has the hours of each run."""
    (hours,) = arguments
    return as_markdown(paper_table(read_records(records), read_records(records.with_name(hours))))


def _corruptions(records: Path, arguments: Sequence[str]) -> str:
    """The paper's Table 4."""
    return as_markdown(corruption_table(corruption_columns(read_records(corruptions_file(records)))))


def _domain(records: Path, arguments: Sequence[str]) -> str:
    """Tables of the domain benchmark by name, of the models named after them; of all models if none is."""
    tables = [name for name in arguments if name in DOMAIN_TABLES]
    models = [name for name in arguments if name not in DOMAIN_TABLES]
    if not tables:
        raise InputError(f"name tables of the domain benchmark: {', '.join(DOMAIN_TABLES)}.")
    lines = [line for line in read_records(domain_file(records)) if not models or line["model"] in models]
    if missing := set(models) - {line["model"] for line in lines}:
        raise InputError(f"no line of {domain_file(records)} is of {', '.join(sorted(missing))}.")
    return "\n\n".join(as_markdown(DOMAIN_TABLES[name](lines)) for name in tables)


def _people(records: Path, arguments: Sequence[str]) -> str:
    """Predictors against people's votes; with `terms`, the terms of the variance."""
    lines = read_lines(records)
    return as_markdown(people_table(lines, TERMS) if arguments == ["terms"] else people_table(lines))


def _sizes(records: Path, arguments: Sequence[str]) -> str:
    """The terms of the variance over the size of the training set, on the tasks named; on all if none is."""
    lines = [line for line in read_lines(records) if not arguments or line["task"] in arguments]
    return as_markdown(sizes_table(lines))


def _hours(records: Path, arguments: Sequence[str]) -> str:
    return as_markdown(hours_table(read_records(timing_file(records))))


def _hashes(records: Path, arguments: Sequence[str]) -> str:
    return as_markdown(hashes_table(read_records(records)))


def scores_table(records: Iterable[Record], keys: Sequence[str]) -> Table:
    """One group per task and preset; bold as in Table 2."""
    groups = []
    for column, lines in by_column(records).items():
        rows, title = summaries(lines, keys), column_title(*column, common_settings(lines))
        best = {
            key: bold(score_of(key), {row: entries[key] for row, entries in rows.items()}) for key in keys
        }
        groups.append(Group(title, [_score_row(row, rows[row], best) for row in rows]))
    return Table(_header(keys), groups)


def choice_table(records: Iterable[Record], keys: Sequence[str]) -> Table:
    """The settings of each model side by side; bold is the one with the lowest first key."""
    lines = list(records)
    rows = summaries(lines, keys)
    by_model: dict[str, list[str]] = {}
    for row in rows:
        by_model.setdefault(row.partition(" ")[0], []).append(row)
    chosen = {min(group, key=lambda row: rows[row][keys[0]].mean) for group in by_model.values()}
    best = dict.fromkeys(keys, chosen)
    return Table(_header(keys), [Group("", [_score_row(row, rows[row], best) for row in rows])])


def summaries(records: Sequence[Record], keys: Sequence[str]) -> Rows:
    """What each row of one table has for each key, over seeds."""
    found: dict[str, dict[str, list[float]]] = {}
    for record in with_row_labels(records):
        entries = found.setdefault(record["model"], {key: [] for key in keys})
        for key in keys:
            if key not in record:
                raise InputError(f"the record of {record['model']}, seed {record['seed']}, has no {key!r}.")
            entries[key].append(float(record[key]))
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


def _score_row(label: str, entries: Mapping[str, Summary], best: Mapping[str, Any]) -> list[Entry]:
    shown = [
        Entry(show(score_of(key), summary, _DIGITS.get(score_of(key))), label in best[key])
        for key, summary in entries.items()
    ]
    return [Entry(label), *shown, Entry(str(next(iter(entries.values())).n))]


def gap(score: str, ours: Summary, theirs: Summary) -> float:
    """(ours − theirs) / √((s² + s′²)/2); theirs alone where we have one seed.

    >>> round(gap("error", Summary(0.081, 0.002, 5), Summary(0.079, 0.002, 10)), 6)
    1.0
    """
    spread = max(theirs.std, _hidden_by_rounding(score))
    if math.isfinite(ours.std):
        spread = math.sqrt((ours.std**2 + spread**2) / 2)
    return (ours.mean - theirs.mean) / spread


def paper_table(records: Iterable[Record], hours: Iterable[Record]) -> Table:
    """The paper's Table 2, a group per task: ours beside it where it was run, and how long a run takes."""
    run = {column.task: column for column in result_columns(records)}
    known = {
        (line["task"], line["model"]): f"{line['hours']:.1f} / {line['hours_bf16']:.1f}" for line in hours
    }
    groups = [
        Group(
            run[task].title if task in run else f"{task} (not run)",
            [
                [
                    Entry(model),
                    *(_paper_entry(run.get(task), task, score, model) for score in PAPER_SCORES),
                    Entry(known.get((task, model), "")),
                ]
                for model in paper.PRINTED_MODELS
            ],
        )
        for task in paper.OOD_SETS
    ]
    titles = [describe(score).title for score in PAPER_SCORES]
    return Table(["", *titles, "hours: float32 / bfloat16"], groups, [_GAP_NOTE])


def _paper_entry(column: ResultColumn | None, task: str, score: str, model: str) -> Entry:
    theirs = paper.results()[task, score][model]
    figure = column.figures.get(score, {}).get(model) if column else None
    if figure is None:
        return Entry(f"({show(score, theirs.summary)})")
    ours, distance = figure.summary, gap(score, figure.summary, theirs.summary)
    side = "▲" if better(score, ours.mean, theirs.summary.mean) else "▼"
    number = f"{distance:+.1f}".replace("-", "−")
    return Entry(f"{side} {number} ({show(score, ours)}; {show(score, theirs.summary)})")


def _hidden_by_rounding(score: str) -> float:
    """The standard deviation of what rounding to the last printed digit takes away: a digit / √12."""
    last_digit = 0.001 if describe(score).percent else 0.01
    return last_digit / math.sqrt(12)


def hours_table(lines: Iterable[Record]) -> Table:
    """One row per model: runs, epochs, hours in all; judging is not counted."""
    groups = [
        Group(column_title(*column, common_settings(runs)), _hour_rows(runs))
        for column, runs in by_column(lines).items()
    ]
    return Table(["", "runs", "epochs", "hours"], groups)


def _hour_rows(runs: Iterable[Record]) -> list[list[Entry]]:
    by_model: dict[str, list[Record]] = {}
    for run in runs:
        by_model.setdefault(run["model"], []).append(run)
    rows = [_hour_row(model, by_model[model]) for model in in_order(by_model)]
    return [*rows, _hour_row("in all", [run for found in by_model.values() for run in found])]


def _hour_row(label: str, runs: list[Record]) -> list[Entry]:
    epochs, seconds = sum(run["epochs"] for run in runs), sum(run["seconds"] for run in runs)
    return [Entry(label), *map(Entry, (str(len(runs)), str(epochs), f"{seconds / 3600:.1f}"))]


def hashes_table(records: Iterable[Record]) -> Table:
    """One row per model with the configurations of its seeds, one row per set of data."""
    groups = []
    for column, lines in by_column(records).items():
        title = column_title(*column, common_settings(lines))
        groups += [
            Group(f"{title}, configurations by seed", _hash_rows(configurations(lines))),
            Group(f"{title}, data", _hash_rows(data_hashes(lines))),
        ]
    return Table(["", "hashes"], groups, [_HASH_NOTE])


def configurations(records: Sequence[Record]) -> Hashes:
    """Each model, with its settings, and the hashes of its seeds."""
    found: dict[str, list[str]] = {}
    for record in _in_order_of_seeds(with_row_labels(records)):
        found.setdefault(record["model"], []).append(record["config"])
    return {model: found[model] for model in in_order(found)}


def data_hashes(records: Sequence[Record]) -> Hashes:
    """Each set of data and the hashes it had by seed: one, where all seeds saw the same rows."""
    found: dict[str, list[str]] = {}
    for record in _in_order_of_seeds(records):
        for key in (key for key in record if key.startswith(_DATA)):
            hashes = found.setdefault(key.removeprefix(_DATA), [])
            if record[key] not in hashes:
                hashes.append(record[key])
    return found


def _in_order_of_seeds(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: record["seed"])


def _hash_rows(hashes: Hashes) -> list[list[Entry]]:
    return [[Entry(name), Entry(" ".join(values))] for name, values in hashes.items()]


BLOCKS: MappingProxyType[str, BlockWriter] = MappingProxyType(
    {
        "table": _table,
        "verdict": _verdict,
        "scores": _scores,
        "choice": _choice,
        "paper": _paper,
        "corruptions": _corruptions,
        "domain": _domain,
        "people": _people,
        "sizes": _sizes,
        "hours": _hours,
        "hashes": _hashes,
    }
)


_END = "<!-- end of results -->"
_BLOCK = re.compile(rf"(<!-- results: ([^\n]+) -->\n)(.*?){_END}", re.DOTALL)


def pages_beneath(paths: Iterable[Path]) -> list[Path]:
    """The pages named, and all Markdown files of folders named."""
    found = [page for path in paths for page in (sorted(path.rglob("*.md")) if path.is_dir() else [path])]
    missing = [page for page in found if not page.is_file()]
    if missing or not found:
        raise InputError(f"there is no page at {', '.join(map(str, missing or paths))}.")
    return found


def stale_pages(pages: Iterable[Path]) -> list[Path]:
    """Those that do not say what their records say."""
    return [page for page in pages if filled(page) != page.read_text(encoding="utf-8")]


def fill(pages: Iterable[Path]) -> list[Path]:
    """Bring pages up to date; returns those that changed."""
    stale = stale_pages(pages)
    for page in stale:
        write_whole(page, filled(page))
    return stale


def filled(page: Path) -> str:
    """The text of a page with every block made anew."""
    text = page.read_text(encoding="utf-8")
    if text.count("<!-- results: ") != len(_BLOCK.findall(text)):
        raise InputError(f"a block of {page} is not closed: it must end with the line {_END!r}.")
    return _BLOCK.sub(lambda found: f"{found[1]}\n{_content(page, found[2])}\n\n{_END}", text)


def _content(page: Path, request: str) -> str:
    name, file, *arguments = request.split()
    if name not in BLOCKS:
        raise UnknownNameError("block of results", name, BLOCKS)
    records = page.parent / file
    if not records.exists():
        raise InputError(
            f"there are no records at {records}. Run: totalcal-lab results gather RUNS {records}"
        )
    return BLOCKS[name](records, arguments)
