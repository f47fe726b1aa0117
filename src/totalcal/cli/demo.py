"""`totalcal demo`: the whole of it on embedded data, in a minute."""

from pathlib import Path

import typer

from totalcal.cli.app import Example, app


@app.command(rich_help_panel="Start here", epilog=Example("totalcal demo"))
def demo(
    out: Path = typer.Option(Path("runs/demo/report.html"), help="The page to write."),
    seeds: int = typer.Option(3, min=1, help="How many seeds, counted from 0."),
    epochs: int = typer.Option(20, min=1, help="How often every row is seen."),
) -> None:
    """Train and judge models on handwritten digits, with a report."""
    from totalcal.demo import run_demo
    from totalcal.files import write_whole
    from totalcal.report import Chapter, Section, as_text, page

    table = run_demo(seeds, epochs, lambda run: typer.echo(f"{run['model']}, seed {run['seed']}: done"))
    section = Section("scores", "Scores", "Lower is better, but for the AUROC.", [table])
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, page([Chapter("digits", "Handwritten digits", "demo", "", [section])]))
    typer.echo(as_text(table))
    typer.echo(f"Open in any browser: {out.absolute()}")
