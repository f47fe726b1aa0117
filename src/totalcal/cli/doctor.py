"""`totalcal doctor`: what is installed, and what is missing for which command."""

import platform
from collections.abc import Iterator
from importlib import metadata

import typer
from packaging.requirements import Requirement

from totalcal import __version__
from totalcal.cli.app import Example, ExitCode, app

PURPOSES = {
    "": "all commands",
    "pictures": "predict and serve on pictures",
    "report": "calibrate, report, demo",
    "tables": "Parquet and Arrow tables, scikit-learn steps in a model file",
    "tensorboard": "curves for TensorBoard",
    "serve": "serve",
    "export": "export, predict with an .onnx",
}
"""What each extra is for; the empty one is what totalcal always needs."""


def problems(extra: str) -> Iterator[str]:
    """A line for each package of an extra that is missing or too old."""
    for line in metadata.requires("totalcal") or ():
        needed = Requirement(line)
        if needed.marker is not None and not needed.marker.evaluate({"extra": extra}):
            continue
        try:
            version = metadata.version(needed.name)
        except metadata.PackageNotFoundError:
            yield f"{needed.name} is not installed"
            continue
        if not needed.specifier.contains(version, prereleases=True):
            yield f"{needed.name} {version} is installed, {needed.specifier} is needed"


@app.command(rich_help_panel="Learn", epilog=Example("totalcal doctor"))
def doctor() -> None:
    """Say what is installed, and what is missing for which command."""
    typer.echo(f"totalcal {__version__}, Python {platform.python_version()}, {platform.platform()}")
    core = list(problems(""))
    for extra, purpose in PURPOSES.items():
        found = [problem for problem in problems(extra) if not extra or problem not in core]
        name = f"totalcal[{extra}]" if extra else "totalcal"
        cure = f". Run: pip install '{name}'" if found else ""
        typer.echo(f"{'✗' if found else '✓'} {name}: {purpose}{': ' * bool(found)}{'; '.join(found)}{cure}")
    raise typer.Exit(ExitCode.FAILED if core else ExitCode.DONE)
