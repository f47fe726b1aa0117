"""The command line: one file per group of commands, heavy imports inside of the commands."""

import sys

from totalcal.cli import (  # noqa: F401
    data,
    demo,
    doctor,
    grid,
    inspect,
    predict,
    report,
    results,
    score,
    serve,
    status,
    studies,
    table,
    watch,
)
from totalcal.cli.app import app
from totalcal.cli.manners import run


def main() -> None:
    """The `totalcal` of the shell."""
    sys.exit(run(app, sys.argv[1:]))
