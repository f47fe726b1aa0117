"""What finished runs say: `totalcal-lab table` and `results`. No torch."""

import json
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from totalcal.cli import Example, ExitCode
from totalcal_lab.cli.app import app

if TYPE_CHECKING:
    from totalcal.report import Table


DEFAULT_RUNS = Path(os.environ.get("TOTALCAL_RUNS", "runs"))
Runs = Annotated[Path, typer.Argument(help="The folder of runs: TOTALCAL_RUNS, else ./runs.")]


class Format(StrEnum):
    """How a table is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    LATEX = "latex"
    HTML = "html"
    CSV = "csv"
    JSON = "json"


@app.command(rich_help_panel="Experiments", epilog=Example("totalcal-lab table runs --format markdown"))
def table(
    runs: Runs = DEFAULT_RUNS,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="The cost instead: seconds per epoch, relative to softmax.")
    ] = False,
    corruptions: Annotated[
        bool, typer.Option("--corruptions", help="Table 4 instead: scores by severity.")
    ] = False,
    domain: Annotated[
        bool,
        typer.Option(
            "--domain", help="The domain benchmark instead: OOD detection, and familiarity under corruption."
        ),
    ] = False,
) -> None:
    """Print Table 2 of the paper, or another table, from finished runs."""
    warn_of_damage(runs)
    show = _costs if cost else _domain if domain else _corruptions if corruptions else _results
    typer.echo(show(runs, Format.JSON if as_json else format))


def warn_of_damage(runs: Path) -> None:
    """Say which finished runs are left out, since what they left is not what they wrote."""
    from totalcal.errors import printable
    from totalcal_lab.records.folders import damage_in_words

    for line in damage_in_words(runs):
        typer.echo(printable(line), err=True)


def _results(runs: Path, format: Format) -> str:
    from totalcal_lab.records.folders import finished_records
    from totalcal_lab.records.results import result_columns, result_lines, result_table

    columns = result_columns(finished_records(runs))
    words = {f"{column.task}/{column.preset}": column.words for column in columns}
    return _printed(format, result_table(columns), result_lines(columns), {"words": words})


def _costs(runs: Path, format: Format) -> str:
    from totalcal_lab.records.folders import run_folders
    from totalcal_lab.records.progress import cost_table, costs

    table = costs(run_folders(runs))
    lines = [
        {"task": task, "preset": preset, "model": model, **cost._asdict()}
        for (task, preset), models in table.items()
        for model, cost in models.items()
    ]
    return _printed(format, cost_table(table), lines, {})


def _corruptions(runs: Path, format: Format) -> str:
    from totalcal_lab.records.corruptions import (
        corruption_columns,
        corruption_lines,
        corruption_records,
        corruption_table,
    )

    columns = corruption_columns(corruption_records(runs))
    return _printed(format, corruption_table(columns), corruption_lines(columns), {})


def _domain(runs: Path, format: Format) -> str:
    from totalcal_lab.records.domain import TABLES, domain_records

    records = domain_records(runs)
    lines = [dict(record) for record in records]
    if format in (Format.JSON, Format.CSV):
        return _printed(format, TABLES["panel"](records), lines, {})
    tables = [make(records) for make in TABLES.values()]
    return "\n\n".join(_printed(format, table, lines, {}) for table in tables if any(table.rows))


def _printed(format: Format, table: "Table", lines: Sequence[dict[str, Any]], extra: dict[str, Any]) -> str:
    from totalcal.report import as_text
    from totalcal_lab.records.formats import WRITERS, as_csv

    match format:
        case Format.JSON:
            return json.dumps({"rows": lines, **extra}, indent=1, ensure_ascii=False, allow_nan=False)
        case Format.CSV:
            return as_csv(lines)
        case Format.TEXT:
            return as_text(table, colour=sys.stdout.isatty())
    return WRITERS[format.value](table)


results = typer.Typer(
    no_args_is_help=True, rich_markup_mode="rich", help="Records to keep, and pages made from them."
)
app.add_typer(results, name="results", rich_help_panel="Experiments")

RunFolders = Annotated[Path, typer.Argument(help="A folder of runs.")]
Target = Annotated[
    Path, typer.Argument(help="The file of records, name.jsonl; created if need be, else added to.")
]
Pages = Annotated[list[Path], typer.Argument(help="Markdown pages, or folders of them.")]


@results.command(epilog=Example("totalcal-lab results gather runs records/fashion.jsonl"))
def gather(runs: RunFolders, target: Target) -> None:
    """Gather the records of finished runs in one file."""
    from totalcal_lab.records.progress import gather as gathered

    count = gathered(runs, target)
    typer.echo(
        f"{target}: {count.records} runs, {count.corruptions} lines of corruptions, {count.domain} of domains"
    )


@results.command(epilog=Example("totalcal-lab results write README.md docs/results"))
def write(
    pages: Pages,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; fail if a page is stale.")] = False,
) -> None:
    """Fill pages from their records."""
    from totalcal_lab.pages import fill, pages_beneath, stale_pages

    found = pages_beneath(pages)
    stale = stale_pages(found) if check else fill(found)
    for page in stale:
        typer.echo(f"{page}: {'is stale' if check else 'written'}")
    if check and stale:
        raise typer.Exit(ExitCode.FAILED)
    if not stale:
        typer.echo(f"{len(found)} pages say what their records say")
