"""`totalcal table`: the paper's tables from the records of finished runs. Reads only."""

import csv
import json
import os
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer

from totalcal.cli.app import app

DEFAULT_RUNS = Path(os.environ.get("TOTALCAL_RUNS", "runs"))
Runs = Annotated[Path, typer.Argument(help="The folder of runs: TOTALCAL_RUNS, else ./runs.")]


class Format(StrEnum):
    TEXT = "text"
    MARKDOWN = "markdown"
    LATEX = "latex"
    CSV = "csv"
    JSON = "json"


@app.command(rich_help_panel="Experiments")
def table(
    runs: Runs = DEFAULT_RUNS,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="Seconds an epoch, relative to softmax.")] = False,
    corruptions: Annotated[bool, typer.Option("--corruptions", help="Table 4: scores by severity.")] = False,
    figure: Annotated[Path | None, typer.Option(help="Draw Figure 3: scores against severity.")] = None,
) -> None:
    """Table 2 of the paper from finished runs. [dim]Example: totalcal table runs --format markdown[/dim]"""
    show = _costs if cost else _corruptions if corruptions or figure else _results
    typer.echo(show(runs, Format.JSON if as_json else format))
    if figure:
        from totalcal.report.severity_figure import draw_severity_figure

        typer.echo(f"wrote {draw_severity_figure(runs, figure)}", err=True)


def _results(runs: Path, format: Format) -> str:
    from totalcal.records.folders import finished_records
    from totalcal.records.table import result_columns, result_layout, result_lines

    columns = result_columns(finished_records(runs))
    words = {f"{column.task}/{column.preset}": column.words for column in columns}
    return _printed(format, lambda: result_layout(columns), result_lines(columns), {"words": words})


def _costs(runs: Path, format: Format) -> str:
    from totalcal.records.cost import cost_layout, costs
    from totalcal.records.folders import run_folders

    table = costs(run_folders(runs))
    lines = [
        {"task": task, "preset": preset, "model": model, **cost._asdict()}
        for (task, preset), models in table.items()
        for model, cost in models.items()
    ]
    return _printed(format, lambda: cost_layout(table), lines, {})


def _corruptions(runs: Path, format: Format) -> str:
    from totalcal.records.corruptions import (
        corruption_columns,
        corruption_layout,
        corruption_lines,
        corruption_records,
    )

    columns = corruption_columns(corruption_records(runs))
    return _printed(format, lambda: corruption_layout(columns), corruption_lines(columns), {})


def _printed(
    format: Format, layout: Callable[[], Any], lines: Sequence[dict[str, Any]], extra: dict[str, Any]
) -> str:
    match format:
        case Format.JSON:
            return json.dumps({"rows": lines, **extra}, indent=1, ensure_ascii=False, allow_nan=False)
        case Format.CSV:
            return _csv(lines)
        case Format.TEXT:
            from totalcal.records.layout import as_text

            return as_text(layout(), colour=sys.stdout.isatty())
    from totalcal.records.layout import LAYOUTS

    return LAYOUTS[format.value](layout())


def _csv(lines: Sequence[dict[str, Any]]) -> str:
    paper = StringIO()
    writer = csv.DictWriter(paper, lines[0] if lines else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return paper.getvalue().rstrip("\n")
