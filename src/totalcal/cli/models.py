"""`totalcal predict`, `export`, `inspect`, `serve`, `watch`: model files. `score`: any predictions."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from totalcal.cli.app import MEMORY, OWN_BACKBONE, Example, app

if TYPE_CHECKING:
    from totalcal.types import Draws

SOME_ROWS_REFUSED, SHIFTED = 3, 4
A_FILE = typer.Argument(..., help="A file that totalcal.save or totalcal export wrote.")
EXPECT = typer.Option(
    None,
    metavar="DIGEST",
    help="The digest that the model must have (see totalcal inspect), or its first digits.",
)


def number_of_draws(text: str) -> "Draws":
    """What --draws says: a whole number, moments or auto.

    >>> number_of_draws("10"), number_of_draws("moments")
    (10, 'moments')
    """
    if text == "moments":
        return "moments"
    if text == "auto":
        return "auto"
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a whole number, 0 or more, nor moments or auto")
    return int(text)


@app.command(rich_help_panel="Models", epilog=Example("totalcal predict iris.totalcal iris.csv -o out.csv"))
def predict(
    file: Path = A_FILE,
    inputs: Path = typer.Argument(
        ...,
        help="A .csv with a header, .parquet, .arrow, .npz, a folder of images, or a .csv of their paths.",
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="The table to write: .parquet and .arrow as such, all else as CSV."
    ),
    draws: Any = typer.Option(
        "auto",
        parser=number_of_draws,
        metavar="N|moments|auto",
        help="Draws of weights and memory: a number, 0 for means, moments, or auto (as the file has it).",
    ),
    chunk: int | None = typer.Option(
        None, min=1, help="Rows at a time. Default: 256 to 4096; fewer for large pictures."
    ),
    workers: int | None = typer.Option(
        None, min=0, help="Processes that decode images. Default: one per core if there are many images."
    ),
    strict: bool = typer.Option(False, "--strict", help="Stop at the first row that cannot be used."),
    backbone: str | None = OWN_BACKBONE,
    expect: str | None = EXPECT,
    memory: Any = MEMORY,
) -> None:
    """Predict class, probabilities, uncertainties and decision of every row; resumes after a kill.

    Exit status 3 says that the table is written, but some rows could not be used.
    """
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from totalcal.files.predicting.stream import predict_file

    columns = SpinnerColumn(), TextColumn("rows"), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("rows", total=None)
        done = predict_file(
            file,
            inputs,
            output,
            draws=draws,
            chunk_size=chunk,
            workers=workers,
            strict=strict,
            backbone=backbone,
            expect=expect,
            on_rows=lambda rows: progress.advance(task, rows),
        )
    bad = f", {done.bad_rows} could not be used: see {output}.bad" if done.bad_rows else ""
    typer.echo(f"{done.rows} rows, {done.rows_now} of them now, in {done.output}{bad}")
    if done.bad_rows:
        raise typer.Exit(SOME_ROWS_REFUSED)


@app.command(rich_help_panel="Models", epilog=Example("totalcal export iris.totalcal iris.onnx"))
def export(
    file: Path = typer.Argument(..., help="A file that totalcal.save wrote."),
    output: Path | None = typer.Argument(None, help="The file to write. Default: FILE with another suffix."),
    to: str | None = typer.Option(None, help="onnx or pt2. Default: by the suffix of the output."),
    draws: Any = typer.Option(
        "auto",
        parser=number_of_draws,
        metavar="N|moments|auto",
        help="Draws of weights and memory: a number, 0 for means, moments, or auto (as the file has it).",
    ),
    seed: int = typer.Option(0, help="Seed of the draws."),
    example: Path | None = typer.Option(
        None, help="An .npz with some rows, for a model that was saved without preprocessing."
    ),
    backbone: str | None = OWN_BACKBONE,
    memory: Any = MEMORY,
) -> None:
    """Write a model as one program for onnxruntime, or for torch alone; it is checked against the model."""
    from totalcal.files.exporting.writing import export_file

    done = export_file(file, output, to=to, draws=draws, seed=seed, example=example, backbone=backbone)
    typer.echo(
        f"wrote {done.path}: {', '.join(done.description.outputs)}; "
        f"at most {done.largest_difference:.1g} from the model on {done.rows} rows"
    )


@app.command(rich_help_panel="Models", epilog=Example("totalcal inspect fashion.totalcal"))
def inspect(
    file: Path = typer.Argument(..., help="A file that totalcal.save or totalcal export wrote."),
    memory: Any = MEMORY,
) -> None:
    """Show what a model file holds: digest, model, classes, gate and its cost, scores, versions."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from totalcal.errors import printable
    from totalcal.files.container import summary

    table = Table(show_header=False, box=None)
    for heading, text in summary(file):
        table.add_row(Text(heading, "bold"), Text(printable(text)))
    Console().print(table)


@app.command(rich_help_panel="Judge", epilog=Example("totalcal score predictions.npz --ood other.npz --json"))
def score(
    predictions: Path = typer.Argument(
        help="An .npz with `labels` and exactly one of `probabilities`, `logits`, `concentration`, "
        "`log_concentration` (n × K, or draws × n × K). Labels are 0 … K − 1, or names given in an "
        "array `classes`, in the order of the columns. Or a .csv, .parquet or .npy of probabilities, of all "
        "classes or of the positive one, with a column of labels."
    ),
    ood: list[Path] = typer.Option(
        [],
        "--ood",
        help="The same for out-of-distribution (OOD) inputs, without labels; may be repeated.",
    ),
    bins: int = typer.Option(15, help="Bins of the ECE, of equal width."),
    uncertainty: str = typer.Option(
        "entropy",
        help="The uncertainty that detects OOD inputs: entropy, mutual_information, reducible, irreducible, "
        "data, negative_log_concentration.",
    ),
    label: str = typer.Option("label", help="The column of a table that holds the labels."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object, scores as fractions."),
    memory: Any = MEMORY,
) -> None:
    """Evaluate predictions saved by any framework: fit, calibration, OOD detection.

    Out-of-distribution is the positive class.
    """
    from totalcal.scores.evaluate import evaluate_files

    verdict = evaluate_files(predictions, ood, bins=bins, uncertainty=uncertainty, label=label)
    typer.echo(verdict.to_json() if as_json else str(verdict))


@app.command(rich_help_panel="Models", epilog=Example("totalcal serve iris.totalcal"))
def serve(
    file: Path = typer.Argument(..., help="A file that totalcal.save wrote."),
    host: str = typer.Option("127.0.0.1", help="Where to listen; beyond this machine a token is needed."),
    port: int = typer.Option(8000, min=1, max=65535, help="The port to listen on."),
    token_file: Path | None = typer.Option(None, help="A file with the token; else TOTALCAL_TOKEN, if set."),
    name: str | None = typer.Option(None, help="The model's name in paths. Default: that of the file."),
    draws: Any = typer.Option(
        "auto", parser=number_of_draws, metavar="N|moments|auto", help="As for totalcal predict."
    ),
    exact: bool = typer.Option(
        False, "--exact", help="Answer each request on its own: the same as predict, to the bit."
    ),
    gather_ms: float = typer.Option(
        3.0, min=0, help="Milliseconds a batch waits for requests still being read."
    ),
    most_bytes: int = typer.Option(16 * 2**20, min=1, help="Largest request, in bytes."),
    most_rows: int = typer.Option(4096, min=1, help="Largest request, in rows."),
    seconds: float = typer.Option(
        30.0, min=0.1, help="Time limit for reading a request, and for answering it."
    ),
    state: Path | None = typer.Option(None, help="A file that keeps the monitor between runs."),
    backbone: str | None = OWN_BACKBONE,
    expect: str | None = EXPECT,
    memory: Any = MEMORY,
) -> None:
    """Answer over HTTP: Open Inference Protocol v2, /predict, a page at /, /metrics."""
    from totalcal.files.container import check_digest
    from totalcal.files.reading import read_text
    from totalcal.files.user_nets import load_named
    from totalcal.serving.guard import Limits
    from totalcal.serving.listening import check_binding, run
    from totalcal.serving.service import Service

    token = read_text(token_file).strip() if token_file else os.environ.get("TOTALCAL_TOKEN") or None
    check_binding(host, token, port)
    limits = Limits(most_bytes, most_rows, seconds)
    saved = load_named(file, backbone)
    check_digest(saved.digest, expect, file)
    service = Service(saved, name or file.stem, draws, limits, token, exact, gather_ms / 1000, state)
    typer.echo(f"serving {file} on http://{host}:{port}/, until Ctrl-C")
    run(service, host, port)


@app.command(rich_help_panel="Models", epilog=Example("totalcal watch out.csv --model iris.totalcal"))
def watch(
    predictions: Path = typer.Argument(..., help="A table that totalcal predict wrote."),
    model: Path = typer.Option(..., help="The model file, saved with a monitor."),
    output: Path | None = typer.Option(None, "--output", "-o", help="A figure to draw: .png, .svg or .pdf."),
    memory: Any = MEMORY,
) -> None:
    """Say whether the rows of a table have shifted, and since when; a column `label` is taken into account.

    Exit status 4 says that they have.
    """
    from totalcal.decisions.watching import check_figure, draw, watch_file

    if output is not None:
        check_figure(output)
    found = watch_file(predictions, model)
    if output is not None:
        draw(found, output)
        typer.echo(f"wrote {output}")
    typer.echo(str(found.status))
    if not found.status.in_order:
        raise typer.Exit(SHIFTED)
