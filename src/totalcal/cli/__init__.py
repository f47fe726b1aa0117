"""The command line: a file a group of commands, heavy imports inside of the commands."""

import sys

import typer

from totalcal.cli import corrupt, data, doctor, report, score, toy, truth  # noqa: F401
from totalcal.cli.app import ExitCode, app
from totalcal.errors import TotalcalError


def main() -> None:
    """Run a command; an error of ours is one clear line, a traceback only with --debug."""
    try:
        app()
    except TotalcalError as error:
        if "--debug" in sys.argv:
            raise
        typer.secho(f"{type(error).__name__}: {error}", fg=typer.colors.RED, err=True)
        sys.exit(ExitCode.USAGE)
    except KeyboardInterrupt:
        typer.secho("interrupted", fg=typer.colors.RED, err=True)
        sys.exit(ExitCode.INTERRUPTED)
