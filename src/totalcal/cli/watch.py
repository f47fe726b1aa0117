"""`totalcal watch`: does a stream of predictions still look like the held-out rows?"""

from pathlib import Path

import typer

from totalcal.cli.app import Example, app

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
