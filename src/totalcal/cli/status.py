"""`totalcal status`: how far a grid is. Reads the run folders only."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from totalcal.cli.app import ExitCode, app
from totalcal.cli.table import DEFAULT_RUNS, Runs

if TYPE_CHECKING:
    from totalcal.records.progress import GridProgress

_LOOK_SECONDS = 1.0


@app.command(rich_help_panel="Experiments")
def status(
    runs: Runs = DEFAULT_RUNS,
    watch: Annotated[
        bool | None, typer.Option("--watch/--once", help="Keep looking; on a terminal, while runs go on.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Which runs are done, running, failed; time left. [dim]Example: totalcal status runs --once[/dim]"""
    from totalcal.records.folders import State

    progress = _look(runs)
    if as_json:
        lines = [run.as_line() for run in progress.runs]
        typer.echo(json.dumps({"runs": lines, "seconds_left": progress.seconds_left}, indent=1))
    elif watch or (watch is None and sys.stdout.isatty() and progress.is_busy):
        progress = _watch(runs)
    else:
        _print(progress)
    if progress.counts[State.FAILED]:
        raise typer.Exit(ExitCode.FAILED)


def _look(runs: Path) -> "GridProgress":
    from totalcal.records.folders import run_folders
    from totalcal.records.progress import grid_progress

    return grid_progress(run_folders(runs))


def _watch(runs: Path) -> "GridProgress":
    """A live table until nothing runs any more."""
    from rich.live import Live

    from totalcal.records.progress_view import progress_view

    progress = _look(runs)
    with Live(progress_view(progress), auto_refresh=False) as live:
        while progress.is_busy:
            time.sleep(_LOOK_SECONDS)
            progress = _look(runs)
            live.update(progress_view(progress), refresh=True)
    return progress


def _print(progress: "GridProgress") -> None:
    from rich.console import Console

    from totalcal.records.progress_view import progress_view

    Console().print(progress_view(progress), highlight=False)
