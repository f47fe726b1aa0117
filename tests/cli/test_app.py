"""How the command line speaks, as a user meets it: the installed program in a process of its own."""

import errno
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from totalcal.cli import app
from totalcal.cli.app import PANELS, ExitCode, example_of
from totalcal.cli.app import run_application as run
from totalcal.errors import DivergenceError, InputError, TotalcalError


def totalcal(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from totalcal.cli import main; main()", *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["scor"], "score"),
        (["score", "--jsn"], "--json"),
        (["predict", "a.totalcal", "a.csv", "--outptu", "x"], "--output"),
    ],
)
def test_a_mistyped_word_is_one_line_that_suggests_the_nearest(words: list[str], hint: str) -> None:
    done = totalcal(*words)
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert hint in done.stderr
    assert "?." not in done.stderr  # a question has its own end


def test_debug_shows_the_traceback_wherever_it_stands() -> None:
    for words in (["--debug", "score", "no.npz"], ["score", "no.npz", "--debug"]):
        with pytest.raises(TotalcalError):
            run(app, words)
    assert "Traceback" not in totalcal("score", "no.npz").stderr


def test_help_groups_the_commands_and_shows_an_example_of_each() -> None:
    shown = totalcal("--help").stdout
    commands = typer.main.get_command(app).commands
    assert len(commands) > 5
    for name, command in commands.items():
        assert example_of(command).startswith(f"totalcal {name}"), f"{name} has no example in its help"
        assert example_of(command) in shown


def test_help_begins_where_a_newcomer_does() -> None:
    shown = totalcal("--help").stdout
    places = [shown.find(f" {panel} ─") for panel in PANELS]
    there = [place for place in places if place >= 0]
    assert there == sorted(there)
    assert places[0] == min(there)


def test_help_says_what_the_exit_codes_mean() -> None:
    shown = " ".join(totalcal("--help").stdout.split())
    assert all(f"{code} " in shown.partition("Exit codes:")[2] for code in (0, 1, 2, 3, 4, 130))


def test_no_words_at_all_show_the_help() -> None:
    done = totalcal()
    assert "Usage: totalcal" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("too short"), ExitCode.USAGE),
        (DivergenceError("the loss is not finite"), ExitCode.FAILED),
        (PermissionError(13, "Permission denied", "report.html"), ExitCode.FAILED),
        (ZeroDivisionError("division by zero"), ExitCode.FAILED),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (typer.Exit(ExitCode.FAILED), ExitCode.FAILED),
    ],
)
def test_every_end_has_its_exit_code(error: BaseException, code: ExitCode) -> None:
    small = typer.Typer()

    @small.command()
    def fail() -> None:
        raise error

    assert run(small, []) == code


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "Free some space"), (errno.EROFS, "another output"), (errno.EFBIG, "ulimit -f")],
)
def test_an_error_of_the_system_says_what_to_do(
    number: int, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app = typer.Typer()

    @app.command()
    def fail() -> None:
        raise OSError(number, os.strerror(number), "out.csv")

    assert run(app, []) == 1
    said = capsys.readouterr().err
    assert "out.csv" in said
    assert remedy in said
    assert "should not happen" not in said


def test_an_error_of_the_system_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    small = typer.Typer()

    @small.command()
    def write() -> None:
        Path("/no/such/folder/report.html").write_text("", encoding="utf-8")

    run(small, [])
    assert (
        capsys.readouterr().err
        == "the system refused: No such file or directory (/no/such/folder/report.html). "
        "Look whether the path is right.\n"
    )


def test_a_name_in_an_error_cannot_colour_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    small = typer.Typer()

    @small.command()
    def read() -> None:
        raise InputError("there is no [bold]\x1b[31mred.csv.\n  Give another one.")

    run(small, [])
    said = "InputError: there is no [bold]\\x1b[31mred.csv.\n  Give another one.\n"
    assert capsys.readouterr().err == said


def test_a_warning_is_its_words_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    small = typer.Typer()

    @small.command()
    def resume() -> None:
        warnings.warn("\x1b[31mout.csv.part is not as it was written. Going on from row 20.", stacklevel=1)

    with pytest.warns(UserWarning, match="not as it was written"):
        run(small, ["--debug"])
    assert run(small, []) == ExitCode.DONE
    said = "Warning: \\x1b[31mout.csv.part is not as it was written. Going on from row 20.\n"
    assert capsys.readouterr().err == said


def test_a_figure_that_nothing_can_draw_is_refused_before_the_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["watch", "no.csv", "--model", "no.totalcal", "--output", "figure.txt"]
    assert run(app, words) == ExitCode.USAGE
    assert "figure.txt" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_complete(shell: str) -> None:
    words = {"_TOTALCAL_COMPLETE": f"complete_{shell}", "COMP_WORDS": "totalcal expo", "COMP_CWORD": "1"}
    done = totalcal(**words, _TYPER_COMPLETE_ARGS="totalcal expo", _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert "export" in done.stdout


def test_the_help_of_a_command_comes_without_heavy_libraries() -> None:
    """What takes it there in under half a second: `benchmarks/imports.py` measures it."""
    heavy = {"torch", "numpy", "scipy", "sklearn", "matplotlib", "pandas"}
    code = (
        "import sys; from totalcal.cli import app, run_application;"
        f"run_application(app, ['predict', '--help']); sys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_app_itself_prints_its_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("totalcal ")
