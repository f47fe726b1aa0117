"""The command line: one file per group of commands, heavy imports inside of the commands."""

import sys

from totalcal.cli import calibrate, demo, doctor, models  # noqa: F401
from totalcal.cli.app import FIGURE, Example, ExitCode, app, application, ends_in, run_application
from totalcal.cli.child import in_child

__all__ = ["FIGURE", "Example", "ExitCode", "app", "application", "ends_in", "main", "run_application"]


def main() -> None:
    """The `totalcal` of the shell."""
    sys.exit(in_child(lambda: run_application(app, sys.argv[1:])))
