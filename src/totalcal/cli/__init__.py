"""The command line: a file a group of commands, heavy imports inside of the commands."""

import sys

from totalcal.cli import corrupt, data, demo, doctor, grid, report, score, status, table, toy, truth  # noqa: F401
from totalcal.cli.app import app
from totalcal.cli.manners import run


def main() -> None:
    """The `totalcal` of the shell."""
    sys.exit(run(app, sys.argv[1:]))
