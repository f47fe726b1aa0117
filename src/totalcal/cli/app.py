"""The one typer application, and how it speaks: an example beneath every command, errors in one clear line.

Every file of commands beside this one registers itself here.
"""

import errno
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from totalcal import __version__
from totalcal.errors import DivergenceError, SourceError, TotalcalError, printable
from totalcal.files.budget import limit_memory, number_of_bytes

_UsageError: Any = typer.BadParameter.__base__  # typer has moved it between modules, but not in its family


class ExitCode(IntEnum):
    """What a command leaves to the shell."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    INTERRUPTED = 130


class Example(str):
    """The epilog of a command: one line that works, beneath its help and in the list of commands.

    >>> Example("totalcal demo"), Example("totalcal demo").line
    ('Example: totalcal demo', 'totalcal demo')
    """

    line: str

    def __new__(cls, line: str) -> "Example":
        shown = super().__new__(cls, f"Example: {line}")
        shown.line = line
        return shown


PANELS = ("Start here", "Models", "Judge", "Experiments", "Look", "Data", "Learn")


class WithExamples(TyperGroup):
    """A group whose list of commands shows, for each, what it does and one line that works."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Panel by panel; one of a panel that `PANELS` does not name comes last."""
        places = {panel: place for place, panel in enumerate(PANELS)}
        panels = {name: str(getattr(each, "rich_help_panel", "")) for name, each in self.commands.items()}
        return sorted(super().list_commands(ctx), key=lambda name: places.get(panels[name], len(PANELS)))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None and (example := example_of(command)):
            summary = inspect.cleandoc(command.help or "").partition("\n\n")[0]
            command.short_help = f"{summary}\n[dim]{example}[/dim]"
        return command


def example_of(command: Any) -> str:
    """The line in a command's `Example`; that of its first command if it is a group."""
    if isinstance(command, TyperGroup):
        return next(filter(None, map(example_of, command.commands.values())), "")
    return command.epilog.line if isinstance(command.epilog, Example) else ""


def run_application(app: typer.Typer, arguments: list[str]) -> int:
    """Run a command and return its exit code; what goes wrong is one line, or a traceback with --debug."""
    words = [word for word in arguments if word != "--debug"]  # wherever it stands
    debug = len(words) < len(arguments)
    try:
        with nullcontext() if debug else _warnings_in_one_line():
            return app(words, prog_name=app.info.name, standalone_mode=False) or ExitCode.DONE
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted")
        return ExitCode.INTERRUPTED
    except Exception as error:
        if debug:
            raise
        known: Exception = error
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "torch":
            known = TotalcalError(
                "torch is not installed, and this needs it: pip install torch. Without it, an exported model "
                "can be used: totalcal predict model.onnx INPUTS -o OUTPUT."
            )
        _say(_in_one_line(known))
        is_usage = isinstance(known, _UsageError | TotalcalError)  # the user's to mend; else the job failed
        has_failed = isinstance(known, DivergenceError | SourceError)
        return ExitCode.USAGE if is_usage and not has_failed else ExitCode.FAILED


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """A warning is for the user: its words, without the line of code that gave it."""
    pythons = warnings.showwarning
    warnings.showwarning = lambda message, *_, **__: _say(f"Warning: {message}", typer.colors.YELLOW)
    try:
        yield
    finally:
        warnings.showwarning = pythons


def _in_one_line(error: Exception) -> str:
    if isinstance(error, _UsageError):
        message = error.format_message()
        where = error.ctx.command_path if error.ctx else "totalcal"
        end = "" if message.endswith((".", "?")) else "."
        return f"{message}{end} See: {where} --help" if message else ""  # help itself has no message
    if isinstance(error, TotalcalError):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.errno is not None:
        place = f" ({error.filename})" if error.filename else ""
        remedy = _REMEDIES.get(error.errno, "Mend that, and give the same command again.")
        return f"the system refused: {error.strerror or error}{place}. {remedy}"
    if isinstance(error, MemoryError):
        return "there is not enough memory: take fewer rows at a time (--chunk), or allow more (--memory)."
    return f"{type(error).__name__}: {error}. This should not happen; --debug shows where it did."


_REMEDIES = {
    errno.ENOSPC: "Free some space, and give the same command again: it goes on where it was.",
    errno.EDQUOT: "Free some of your quota, and give the same command again: it goes on where it was.",
    errno.EFBIG: "A limit on the size of files (ulimit -f) is too low: raise it, and give the command again.",
    errno.EROFS: "Nothing can be written there: choose another output.",
    errno.EACCES: "You have no right to do that: choose another place, or ask for it.",
    errno.EPERM: "You have no right to do that: choose another place, or ask for it.",
    errno.EMFILE: "Too many files are open (ulimit -n): raise the limit.",
    errno.ENOENT: "Look whether the path is right.",
    errno.ENOTDIR: "Look whether the path is right.",
    errno.EISDIR: "That is a folder: name a file.",
}


def _say(line: str, colour: str = typer.colors.RED) -> None:
    if line:
        shown = "\n".join(map(printable, line.split("\n")))
        typer.secho(shown, fg=colour, err=True)


__all__ = ["FIGURE", "MEMORY", "OWN_BACKBONE", "Example", "ExitCode", "app", "ends_in"]


def ends_in(*endings: str) -> Callable[[Path | None], Path | None]:
    """The check of an option: a file that nothing can write is refused before the work, not after it.

    >>> ends_in(".png", ".pdf")(Path("a.pdf"))
    PosixPath('a.pdf')
    """

    def check(path: Path | None) -> Path | None:
        if path is not None and path.suffix.lower() not in endings:
            raise typer.BadParameter(f"{path} must end in {', '.join(endings[:-1])} or {endings[-1]}.")
        return path

    return check


FIGURE = ends_in(".png", ".svg", ".pdf")
"""The check of every option that names a figure to write."""

OWN_BACKBONE = typer.Option(
    None,
    "--backbone",
    metavar="PACKAGE.MODULE:FACTORY",
    help="The factory of your own net, if the file needs it; it is called without arguments.",
)
"""The option of every command that opens a model file."""


def size(text: str) -> int:
    """What --memory says.

    >>> size("2G")
    2147483648
    """
    try:
        return number_of_bytes(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no size: write 900M, 4G or a number of bytes.") from error


MEMORY = typer.Option(
    None,
    "--memory",
    parser=size,
    callback=limit_memory,
    metavar="SIZE",
    help="The most memory to use, such as 4G. Default: three quarters of what is available.",
)
"""The option of every command that reads what others wrote; it sets the budget of `files.budget` at once."""

EXIT_CODES = (
    "Exit codes: 0 done · 1 the job failed · 2 wrong use or input · 3 some rows could not be used · "
    "4 the stream has shifted · 130 interrupted."
)


def application(name: str, summary: str) -> typer.Typer:
    """An application whose commands show an example each, with --version and --debug before any of them."""
    made = typer.Typer(
        name=name,
        cls=WithExamples,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help=summary,
        epilog=EXIT_CODES,
    )

    def print_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"{name} {__version__}")
            raise typer.Exit

    @made.callback()
    def options(
        version: bool = typer.Option(
            False, "--version", help="Print the version.", callback=print_version, is_eager=True
        ),
        debug: bool = typer.Option(False, "--debug", help="Show the whole traceback of an error."),
    ) -> None:
        """Options that stand before any command."""

    return made


app = application("totalcal", "Classifiers that know what they do not know, and prove it.")
"""The application that `totalcal` runs; every file of commands adds its own."""
