"""`totalcal run`: a grid of models and seeds on a task, trained and judged."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from totalcal.cli.app import ExitCode, app
from totalcal.cli.progress import live_progress, look_at, print_progress
from totalcal.cli.table import DEFAULT_RUNS


class Engine(StrEnum):
    LOKY = "loky"
    SEQUENTIAL = "sequential"
    RAY = "ray"
    DASK = "dask"


@app.command(rich_help_panel="Experiments")
def run(
    task: Annotated[
        str, typer.Argument(help="digits, fashion, cifar10, svhn, cifar100, imdb, iris, gaussians.")
    ],
    models: Annotated[
        str, typer.Option(help="Names with commas; `all`: the family, `rivals`: the rivals.")
    ] = "all",
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0 on.", min=1)] = 3,
    preset: Annotated[str, typer.Option(help="laptop, or paper: the paper's settings.")] = "laptop",
    authors_settings: Annotated[
        bool,
        typer.Option(
            "--authors-settings", help="What the authors' program does; recorded as preset `authors`."
        ),
    ] = False,
    epochs: Annotated[int | None, typer.Option(help="Other than the preset's.", min=1)] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting, as weight_kl=0; may be given again.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of runs: TOTALCAL_RUNS, else ./runs.")] = DEFAULT_RUNS,
    engine: Annotated[
        Engine, typer.Option(help="Where runs take place; ray and dask for a cluster.")
    ] = Engine.LOKY,
    workers: Annotated[int | None, typer.Option(help="As many as cores, unless told.", min=1)] = None,
    data_dir: Annotated[Path | None, typer.Option(help="A folder that holds data sets.")] = None,
) -> None:
    """Train and judge every model with every seed; what is finished is skipped.

    [dim]Example: totalcal run digits --models etp,bnn,edl,enp --seeds 3 --epochs 5[/dim]
    """
    from joblib import cpu_count

    from totalcal.bench.grid import cell_jobs
    from totalcal.bench.planning import Grid, models_named

    grid = Grid(task, "authors" if authors_settings else preset, _overrides(settings or [], epochs))
    jobs = cell_jobs(grid.cells(models_named(models), seeds), out, data_dir)
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
    typer.echo(f"Now: totalcal table {out}", err=True)


def _overrides(settings: list[str], epochs: int | None) -> dict[str, Any]:
    overrides: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise typer.BadParameter(f"{setting!r} is no setting: write name=value.", param_hint="--set")
        overrides[name.strip()] = _parsed(value.strip())
    return overrides


def _parsed(text: str) -> Any:
    """Numbers, lists, true, false and null as in JSON; everything else is a word."""
    try:
        return json.loads(text)
    except ValueError:
        return text
