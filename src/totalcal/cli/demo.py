"""`totalcal demo`: the first five minutes, without a download."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from totalcal.cli.app import Example, app
from totalcal.cli.grid import Engine, run_jobs

_CORRUPTIONS = ("gaussian_noise", "motion_blur", "fog", "contrast")
_SEVERITIES = (1, 3, 5)


@app.command(rich_help_panel="Start here", epilog=Example("totalcal demo"))
def demo(
    out: Annotated[Path, typer.Option(help="The folder of its runs and its report.")] = Path("runs/demo"),
    models: Annotated[str, typer.Option(help="As for `totalcal run`.")] = "all,baselines",
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0 on.", min=1)] = 3,
    epochs: Annotated[int | None, typer.Option(help="Other than the preset's 40.", min=1)] = None,
) -> None:
    """Train and judge all models and baselines on handwritten digits, with a report; minutes on two cores."""
    from totalcal.bench.corruptions import corruption_jobs
    from totalcal.bench.grid import Grid, grid_jobs, models_named
    from totalcal.report import write_report

    begun = time.monotonic()
    grid = Grid("digits", "laptop", {} if epochs is None else {"epochs": epochs})
    runs = grid.configurations(models_named(models), seeds)
    typer.echo(
        f"{len(runs)} runs on 8×8 digits; OOD inputs: letters. Ctrl-C stops, the same command goes on."
    )
    jobs = grid_jobs(runs, out)
    run_jobs(jobs, Engine.LOKY, workers=None)
    typer.echo(f"All of them under corruption: {', '.join(_CORRUPTIONS)}.")
    run_jobs(corruption_jobs(jobs.folders(), _CORRUPTIONS, _SEVERITIES), Engine.LOKY, workers=None)
    page = write_report(out, out / "report.html")
    _print_verdict(out)
    typer.echo(f"\nDone in {time.monotonic() - begun:.0f} s. Open in any browser: {page.absolute()}")


def _print_verdict(out: Path) -> None:
    """The table first, the sentence beneath it."""
    from totalcal.records.table import as_text
    from totalcal.report.boards import boards
    from totalcal.report.sections.scores import sentence, verdict_table

    for board in boards(out):
        typer.echo(as_text(verdict_table(board), colour=sys.stdout.isatty()))
        typer.echo(f"\n{sentence(board)}")
