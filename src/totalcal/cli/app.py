"""The one typer application; every file of commands beside this one registers itself here."""

import typer

from totalcal import __version__
from totalcal.cli.manners import Example, ExitCode, WithExamples

__all__ = ["Example", "ExitCode", "app"]

app = typer.Typer(
    name="totalcal",
    cls=WithExamples,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Classifiers that know what they do not know, and prove it.",
    epilog="Exit codes: 0 done · 1 the job failed · 2 wrong use or input · 130 interrupted.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"totalcal {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_print_version, is_eager=True
    ),
    debug: bool = typer.Option(False, "--debug", help="Show the whole traceback of an error."),
) -> None:
    """Options that stand before any command."""
