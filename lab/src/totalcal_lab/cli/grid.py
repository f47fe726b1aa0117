"""A grid of models and seeds on a task: `totalcal-lab run`, `status` and `demo`."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from totalcal.cli import Example, ExitCode
from totalcal.errors import UnreadableFileError
from totalcal.files import parse_json
from totalcal_lab.cli.app import app
from totalcal_lab.cli.results import DEFAULT_RUNS, Runs

if TYPE_CHECKING:
    from rich.console import Group

    from totalcal_lab.grid.jobs import Jobs
    from totalcal_lab.records.folders import RunFolder
    from totalcal_lab.records.progress import GridProgress


Look = Callable[[], "Sequence[RunFolder]"]


def look_at(folders: Look) -> "GridProgress":
    """The state of the folders at this moment."""
    from totalcal_lab.records.progress import grid_progress

    return grid_progress(folders())


@contextmanager
def live_progress(folders: Look) -> Iterator[None]:
    """A table that looks again every second, on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live

    from totalcal_lab.records.progress import progress_view

    def view() -> "Group":
        return progress_view(look_at(folders))

    with Live(get_renderable=view, refresh_per_second=1, transient=True, console=Console(stderr=True)):
        yield


def print_progress(progress: "GridProgress", err: bool = False) -> None:
    """Prints how far a grid is, on standard error if asked."""
    from rich.console import Console

    from totalcal_lab.records.progress import progress_view

    Console(stderr=err, highlight=False, soft_wrap=True).print(progress_view(progress))


class Engine(StrEnum):
    """Where runs take place."""

    LOKY = "loky"
    SEQUENTIAL = "sequential"
    RAY = "ray"
    DASK = "dask"


@app.command(
    rich_help_panel="Experiments",
    epilog=Example("totalcal-lab run digits --models etp,bnn,edl,enp --seeds 3 --epochs 5"),
)
def run(
    task: Annotated[
        str, typer.Argument(help="digits, fashion, cifar10, svhn, cifar100, imdb, iris, gaussians.")
    ],
    models: Annotated[
        str,
        typer.Option(
            help="Names separated by commas; `all` is the family, `baselines` what it is compared with."
        ),
    ] = "all",
    seeds: Annotated[int, typer.Option(help="How many seeds.", min=1)] = 3,
    first_seed: Annotated[
        int, typer.Option(help="The first seed, so that machines can share a grid.", min=0)
    ] = 0,
    preset: Annotated[
        str, typer.Option(help="laptop, medium (half an hour per run), best (the best we know), or paper.")
    ] = "laptop",
    authors_settings: Annotated[
        bool,
        typer.Option(
            "--authors-settings",
            help="Use the settings of the authors' program; recorded as preset `authors`.",
        ),
    ] = False,
    epochs: Annotated[
        int | None, typer.Option(help="Instead of the preset's number of epochs.", min=1)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other setting, such as weight_kl_scale=0; may be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of runs: TOTALCAL_RUNS, else ./runs.")] = DEFAULT_RUNS,
    engine: Annotated[
        Engine, typer.Option(help="What runs the jobs; ray and dask for a cluster.")
    ] = Engine.LOKY,
    workers: Annotated[
        int | None, typer.Option(help="How many processes. Default: one per core.", min=1)
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="A folder that holds data sets, each in a folder of its name.")
    ] = None,
    corruptions: Annotated[
        bool, typer.Option("--corruptions", help="Evaluate the trained models under corruption, too.")
    ] = False,
    corruption_types: Annotated[str, typer.Option(help="Names separated by commas. Default: all 19.")] = "",
    severities: Annotated[
        str, typer.Option(help="Severities of corruption, separated by commas.")
    ] = "1,2,3,4,5",
    corruption_images: Annotated[
        int | None, typer.Option(help="How many test images to corrupt. Default: all.", min=1)
    ] = None,
    domain: Annotated[
        bool,
        typer.Option(
            "--domain",
            help="Give the trained models a memory of their domain, and evaluate it as an OOD detector.",
        ),
    ] = False,
) -> None:
    """Train and evaluate every model with every seed; finished runs are skipped."""
    from totalcal_lab.grid.grid import Grid, grid_jobs, models_named

    overrides = parsed_settings(settings or [], epochs)
    grid = Grid(task, "authors" if authors_settings else preset, overrides)
    jobs = grid_jobs(grid.configurations(models_named(models), seeds, first_seed), out, data_dir)
    run_jobs(jobs, engine, workers)
    if corruptions:
        from totalcal_lab.grid.corruptions import corruption_jobs

        part = parsed_slice(corruption_types, severities)
        run_jobs(corruption_jobs(jobs.folders(), *part, corruption_images, data_dir), engine, workers)
    if domain:
        from totalcal_lab.grid.domain import domain_jobs

        run_jobs(domain_jobs(jobs.folders(), data_dir), engine, workers)
    typer.echo(f"Now: totalcal-lab table {out}{' --corruptions' * corruptions}", err=True)


def run_jobs(jobs: "Jobs", engine: Engine, workers: int | None) -> None:
    """All jobs, with live progress; failures are named and make the exit code."""
    from joblib import cpu_count

    try:
        with live_progress(jobs.folders):
            jobs.run(engine.value, workers or cpu_count())
    except KeyboardInterrupt:
        typer.echo("Stopped. The same command goes on from here.", err=True)
        raise
    finally:
        print_progress(look_at(jobs.folders), err=True)
    if not jobs.are_done:
        raise typer.Exit(ExitCode.FAILED)


def parsed_slice(types: str, severities: str) -> tuple[list[str], list[int]]:
    """A part of the corruption benchmark.

    >>> parsed_slice("fog,snow", "1,5")
    (['fog', 'snow'], [1, 5])
    """
    from totalcal_lab.corruptions import CORRUPTIONS

    try:
        numbers = [int(word) for word in severities.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{severities!r} are not severities: write 1,3,5.") from None
    return [word.strip() for word in types.split(",")] if types else list(CORRUPTIONS), numbers


def parsed_settings(settings: list[str], epochs: int | None) -> dict[str, Any]:
    """Overrides by name, numbers as numbers.

    >>> parsed_settings(["weight_kl_scale=0", "layers=none"], epochs=2)
    {'epochs': 2, 'weight_kl_scale': 0, 'layers': 'none'}
    """
    overrides: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise typer.BadParameter(f"{setting!r} is not a setting: write name=value.", param_hint="--set")
        overrides[name.strip()] = _parsed(value.strip())
    return overrides


def _parsed(text: str) -> Any:
    """Numbers, lists, true, false and null as in JSON; everything else is a word."""
    try:
        return parse_json(text, "--set")
    except UnreadableFileError:
        return text


_LOOK_SECONDS = 1.0


@app.command(rich_help_panel="Experiments", epilog=Example("totalcal-lab status runs --once"))
def status(
    runs: Runs = DEFAULT_RUNS,
    watch: Annotated[
        bool | None,
        typer.Option("--watch/--once", help="Keep looking while runs go on. Default: on a terminal."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Show which runs are done, running or failed, and the time left."""
    from totalcal_lab.records.folders import State, run_folders

    def folders() -> "list[RunFolder]":
        return list(run_folders(runs))

    if watch or (watch is None and sys.stdout.isatty()):
        with live_progress(folders):
            while look_at(folders).is_busy:
                time.sleep(_LOOK_SECONDS)
    progress = look_at(folders)
    if as_json:
        lines = [run.as_line() for run in progress.runs]
        typer.echo(json.dumps({"runs": lines, "seconds_left": progress.seconds_left}, indent=1))
    else:
        print_progress(progress)
    if progress.counts[State.FAILED]:
        raise typer.Exit(ExitCode.FAILED)
