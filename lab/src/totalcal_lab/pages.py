"""Markdown pages with blocks that come from records: what stands between the marks is never typed by hand.

    <!-- results: scores records/fashion.jsonl error nll -->
    …
    <!-- end of results -->

A block asks for `NAME FILE ARGUMENTS`, the file relative to the page.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import MappingProxyType

from totalcal.errors import InputError, UnknownNameError
from totalcal.files import write_whole
from totalcal.report import Entry, Group, Record, Summary, Table, better, describe, show
from totalcal_lab.records import paper
from totalcal_lab.records.bold import bold
from totalcal_lab.records.corruptions import corruption_columns, corruption_table
from totalcal_lab.records.domain import TABLES as DOMAIN_TABLES
from totalcal_lab.records.formats import as_markdown
from totalcal_lab.records.labels import aggregate, by_column, column_title, common_settings, in_order
from totalcal_lab.records.people import TERMS, people_table
from totalcal_lab.records.progress import corruptions_file, domain_file
from totalcal_lab.records.results import ResultColumn, result_columns
from totalcal_lab.records.sizes import sizes_table
from totalcal_lab.records.store import read_lines, read_records

BlockWriter = Callable[[Path, Sequence[str]], str]

PAPER_SCORES = ("error", "nll", "ece_100", "auroc")
"""What the paper's Table 2 prints."""

_DIGITS = {"nll": 3, "error": 2, "ece": 2, "ece_100": 2}
_GAP_NOTE = (
    "Ours − the paper's, in units of √((s² + s′²)/2): s over our seeds, s′ over the paper's ten, at least "
    "what its rounding hides (0.29 of the last digit). ▲ better than the paper's, ▼ worse; in brackets ours; "
    "theirs, or theirs alone. Hours of one run on one core."
)


def _scores(records: Path, arguments: Sequence[str]) -> str:
    """The keys named, of those tasks that have all of them."""
    lines = [record for record in read_records(records) if all(key in record for key in arguments)]
    if not lines:
        raise InputError(f"no record in {records} has all of: {', '.join(arguments)}.")
    return as_markdown(scores_table(lines, arguments))


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


def scores_table(records: Iterable[Record], keys: Sequence[str]) -> Table:
    """One group per task and preset; bold as in Table 2."""
    groups = []
    for column, lines in by_column(records).items():
        rows = {label: scores for (label,), scores in aggregate(lines, by=("model",)).items()}
        best = {key: bold(key, {label: scores[key] for label, scores in rows.items()}) for key in keys}
        entries = [
            [
                Entry(label),
                *(Entry(show(key, rows[label][key], _DIGITS.get(key)), label in best[key]) for key in keys),
                Entry(str(rows[label][keys[0]].n)),
            ]
            for label in in_order(rows)
        ]
        groups.append(Group(column_title(*column, common_settings(lines)), entries))
    titles = [describe(key) for key in keys]
    return Table(["", *(f"{each.title}{', %' * each.percent}" for each in titles), "seeds"], groups)


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


BLOCKS: MappingProxyType[str, BlockWriter] = MappingProxyType(
    {
        "scores": _scores,
        "paper": _paper,
        "corruptions": _corruptions,
        "domain": _domain,
        "people": _people,
        "sizes": _sizes,
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
