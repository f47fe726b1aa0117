"""`totalcal predict`: a model file and inputs, to a table of predictions and decisions."""

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
