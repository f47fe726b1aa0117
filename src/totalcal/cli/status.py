"""`totalcal status`: how far a grid is. Reads the run folders only."""

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from totalcal.cli.app import Example, ExitCode, app
from totalcal.cli.progress import live_progress, look_at, print_progress
from totalcal.cli.table import DEFAULT_RUNS, Runs

if TYPE_CHECKING:
    from totalcal.records.folders import RunFolder

_LOOK_SECONDS = 1.0


@app.command(rich_help_panel="Experiments", epilog=Example("totalcal status runs --once"))
def status(
    runs: Runs = DEFAULT_RUNS,
    watch: Annotated[
        bool | None, typer.Option("--watch/--once", help="Keep looking; on a terminal, while runs go on.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Which runs are done, running, failed; time left."""
    from totalcal.records.folders import State, run_folders

    def folders() -> "list[RunFolder]":
        return list(run_folders(runs))

    if watch or (watch is None and sys.stdout.isatty()):
        with live_progress(folders):
            while look_at(folders).is_busy:
                time.sleep(_LOOK_SECONDS)
    progress = look_at(folders)
    if as_json:
        lines = [run.as_line() for run in progress.runs]
        typer.echo(json.dumps({"runs": lines, "seconds_left": progress.seconds_left}, indent=1))
    else:
        print_progress(progress)
    if progress.counts[State.FAILED]:
        raise typer.Exit(ExitCode.FAILED)
