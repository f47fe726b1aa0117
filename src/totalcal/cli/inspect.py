"""`totalcal inspect`: what a model file holds."""

from pathlib import Path

import typer

from totalcal.cli.app import Example, app


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
