"""`totalcal report` and `totalcal figures`: from the records of runs to a page, PDFs and LaTeX; no torch."""

from pathlib import Path
from typing import Annotated

import typer

from totalcal.cli.app import Example, app
from totalcal.cli.table import DEFAULT_RUNS, Runs, warn_of_damage


@app.command(rich_help_panel="Look", epilog=Example("totalcal report runs -o report.html"))
def report(
    runs: Runs = DEFAULT_RUNS,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("report.html"),
) -> None:
    """Write one self-contained page about all finished runs: verdict, tables, figures."""
    from totalcal.report import write_report

    warn_of_damage(runs)
    typer.echo(f"wrote {write_report(runs, output)}")


@app.command(rich_help_panel="Look", epilog=Example("totalcal figures runs -o figs"))
def figures(
    runs: Runs = DEFAULT_RUNS,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write into.")] = Path("figs"),
) -> None:
    """Write every figure of the report as PDF and every table as LaTeX."""
    from totalcal.report import write_figures

    warn_of_damage(runs)
    for path in write_figures(runs, output):
        typer.echo(f"wrote {path}")
