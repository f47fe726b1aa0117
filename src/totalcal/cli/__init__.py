"""The command line: one file per group of commands, heavy imports inside of the commands."""

import sys

from totalcal.cli import data, doctor, grid, models, results, studies  # noqa: F401
from totalcal.cli.app import app, run


def main() -> None:
    """The `totalcal` of the shell."""
    sys.exit(run(app, sys.argv[1:]))
