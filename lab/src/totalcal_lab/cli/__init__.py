"""The command line of the laboratory: one file per group of commands."""

import sys

from totalcal.cli import run_application
from totalcal_lab.cli import data, grid, results, studies  # noqa: F401
from totalcal_lab.cli.app import app


def main() -> None:
    """The `totalcal-lab` of the shell."""
    sys.exit(run_application(app, sys.argv[1:]))
