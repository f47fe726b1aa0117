"""`totalcal predict` and `inspect` for model files; `totalcal score` for predictions of any framework."""

from pathlib import Path

import typer

from totalcal.cli.app import Example, app

SOME_ROWS_REFUSED = 3


@app.command(rich_help_panel="Models", epilog=Example("totalcal predict iris.totalcal iris.csv -o out.csv"))
def predict(
    file: Path = typer.Argument(..., help="A file that totalcal.save wrote."),
    inputs: Path = typer.Argument(..., help="A .csv with a header, an .npz, or a folder of images."),
    output: Path = typer.Option(..., "--output", "-o", help="The table to write."),
    draws: int | None = typer.Option(
        None, min=0, help="Draws of weights and memory; 0 takes means. Default: those of the gate, or 10."
    ),
    chunk: int = typer.Option(256, min=1, help="Rows at a time."),
    strict: bool = typer.Option(False, "--strict", help="Stop at the first row that cannot be used."),
) -> None:
    """Class, probabilities, uncertainties and decision of every row; resumes where it was killed.

    Exit status 3 says that the table is written, but some rows could not be used.
    """
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from totalcal.predicting.stream import predict_file

    columns = SpinnerColumn(), TextColumn("rows"), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("rows", total=None)
        done = predict_file(
            file,
            inputs,
            output,
            draws=draws,
            chunk_size=chunk,
            strict=strict,
            on_rows=lambda rows: progress.advance(task, rows),
        )
    bad = f", {done.bad_rows} could not be used: see {output}.bad" if done.bad_rows else ""
    typer.echo(f"{done.rows} rows, {done.rows_now} of them now, in {done.output}{bad}")
    if done.bad_rows:
        raise typer.Exit(SOME_ROWS_REFUSED)


@app.command(rich_help_panel="Models", epilog=Example("totalcal inspect fashion.totalcal"))
def inspect(file: Path = typer.Argument(..., help="A file that totalcal.save wrote.")) -> None:
    """Show what a model file holds: model, classes, gate and its price, scores, versions."""
    from rich.console import Console
    from rich.table import Table

    from totalcal.files.container import summary

    table = Table(show_header=False, box=None)
    for heading, text in summary(file):
        table.add_row(f"[bold]{heading}[/bold]", text)
    Console().print(table)


@app.command(rich_help_panel="Judge", epilog=Example("totalcal score predictions.npz --ood other.npz --json"))
def score(
    predictions: Path = typer.Argument(
        help="An .npz with `labels` and exactly one of `probabilities`, `logits`, `concentration`, "
        "`log_concentration` (n × K, or draws × n × K)."
    ),
    ood: list[Path] = typer.Option(
        [],
        "--ood",
        help="The same for out-of-distribution (OOD) inputs, without labels; may be given several times.",
    ),
    bins: int = typer.Option(15, help="Bins of the ECE, of equal width."),
    uncertainty: str = typer.Option(
        "entropy",
        help="What OOD inputs are told by: entropy, mutual_information, reducible, irreducible, "
        "data, negative_log_concentration.",
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON object, scores as fractions."),
) -> None:
    """Judge predictions saved by any framework: fit, calibration, and OOD inputs told apart.

    Out-of-distribution is the positive class.
    """
    from totalcal.scores.evaluate import evaluate_files

    verdict = evaluate_files(predictions, ood, bins=bins, uncertainty=uncertainty)
    typer.echo(verdict.to_json() if as_json else str(verdict))
