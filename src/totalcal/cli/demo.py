"""`totalcal demo`: the first five minutes, without a download."""

from pathlib import Path
from typing import Annotated

import typer

from totalcal.cli.app import ExitCode, app
from totalcal.cli.progress import live_progress, look_at, print_progress


@app.command(rich_help_panel="Start here")
def demo(
    out: Annotated[Path, typer.Option(help="The folder of its runs and its report.")] = Path("runs/demo"),
    models: Annotated[str, typer.Option(help="As for `totalcal run`.")] = "all,rivals",
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0 on.", min=1)] = 3,
    epochs: Annotated[int, typer.Option(help="Of training, for each model.", min=1)] = 30,
) -> None:
    """Train and judge all models and rivals on handwritten digits, and write a report; minutes on two cores.

    [dim]Example: totalcal demo[/dim]
    """
    from joblib import cpu_count

    from totalcal.bench.grid import Jobs
    from totalcal.bench.planning import Grid, models_named
    from totalcal.report import write_report

    cells = Grid("digits", "laptop", {"epochs": epochs}).cells(models_named(models), seeds)
    typer.echo(
        f"{len(cells)} runs on 8×8 digits; foreign inputs: letters. Ctrl-C stops, the same command goes on."
    )
    jobs = Jobs.planned(cells, out)
    with live_progress(jobs.folders):
        jobs.run(workers=cpu_count())
    if not jobs.are_done:
        print_progress(look_at(jobs.folders), err=True)
        raise typer.Exit(ExitCode.FAILED)
    page = write_report(out, out / "report.html")
    _print_verdict(out)
    typer.echo(
        f"\nThe report: {page.absolute()}\nOpen it in any browser; it is one file and needs nothing else."
    )


def _print_verdict(out: Path) -> None:
    """The table first, the sentence beneath it."""
    import sys

    from totalcal.records.layout import as_text
    from totalcal.report.collect import boards
    from totalcal.report.sections.verdict import sentence, verdict_table
    from totalcal.report.writing import layout

    for board in boards(out):
        typer.echo(as_text(layout(verdict_table(board)), colour=sys.stdout.isatty()))
        typer.echo(f"\n{sentence(board)}")
