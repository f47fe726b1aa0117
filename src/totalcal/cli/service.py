"""`totalcal serve` answers requests with a model; `totalcal watch` looks for drift in what it answered."""

import os
from pathlib import Path

import typer

from totalcal.cli.app import Example, app


@app.command(rich_help_panel="Models", epilog=Example("totalcal serve iris.totalcal"))
def serve(
    file: Path = typer.Argument(..., help="A file that totalcal.save wrote."),
    host: str = typer.Option("127.0.0.1", help="Where to listen; beyond this machine a token is needed."),
    port: int = typer.Option(8000, min=1, max=65535),
    token_file: Path | None = typer.Option(None, help="A file with the token; else TOTALCAL_TOKEN, if set."),
    name: str | None = typer.Option(None, help="The model's name in paths. Default: that of the file."),
    draws: int | None = typer.Option(None, min=0, help="As for totalcal predict."),
    exact: bool = typer.Option(False, "--exact", help="Each request by itself: to the bit as predict."),
    gather_ms: float = typer.Option(3.0, min=0, help="How long a batch waits for requests being read."),
    most_bytes: int = typer.Option(16 * 2**20, min=1, help="Of a request."),
    most_rows: int = typer.Option(4096, min=1, help="Of a request."),
    seconds: float = typer.Option(30.0, min=0.1, help="For a request to come, and to be answered."),
    state: Path | None = typer.Option(None, help="Where the monitor is kept between runs."),
) -> None:
    """Answer over HTTP: Open Inference Protocol v2, /predict, a page at /, /metrics."""
    from totalcal.files.saved import load
    from totalcal.serving.app import Service, check_binding, run
    from totalcal.serving.guard import Limits

    token = token_file.read_text().strip() if token_file else os.environ.get("TOTALCAL_TOKEN") or None
    check_binding(host, token)
    limits = Limits(most_bytes, most_rows, seconds)
    service = Service(load(file), name or file.stem, draws, limits, token, exact, gather_ms / 1000, state)
    typer.echo(f"serving {file} on http://{host}:{port}/, until Ctrl-C")
    run(service, host, port)


SHIFTED = 4


@app.command(rich_help_panel="Models", epilog=Example("totalcal watch out.csv --model iris.totalcal"))
def watch(
    predictions: Path = typer.Argument(..., help="A table that totalcal predict wrote."),
    model: Path = typer.Option(..., help="The model file, saved with a monitor."),
    output: Path | None = typer.Option(None, "--output", "-o", help="A picture to draw: .png, .svg, .pdf."),
) -> None:
    """Say whether the rows of a table have shifted, and since when; a column `label` is taken into account.

    Exit status 4 says that they have.
    """
    from totalcal.watching import draw, watch_file

    found = watch_file(predictions, model)
    if output is not None:
        draw(found, output)
        typer.echo(f"wrote {output}")
    typer.echo(str(found.status))
    if not found.status.in_order:
        raise typer.Exit(SHIFTED)
