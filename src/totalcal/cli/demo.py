"""`totalcal demo`: what calibration does, on embedded data, in a minute or two."""

from pathlib import Path

import typer

from totalcal.cli.app import Example, app


@app.command(rich_help_panel="Start here", epilog=Example("totalcal demo"))
def demo(
    out: Path = typer.Option(Path("runs/demo/report.html"), help="The page to write."),
    seeds: int = typer.Option(5, min=1, help="How many seeds, counted from 0."),
    epochs: int = typer.Option(30, min=1, help="How often every row is seen."),
) -> None:
    """Calibrate nets trained on handwritten digits, beside what one would pick instead; writes a report."""
    from totalcal.demo import demo_page, run_demo
    from totalcal.files import write_whole
    from totalcal.report import as_text

    records = run_demo(seeds, epochs, lambda run: typer.echo(f"seed {run['seed']}: {run['model']}"))
    words, html, table = demo_page(records)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, html)
    typer.echo(f"\nOpen in any browser: {out.absolute()}\n\n{words}\n\n{as_text(table)}")
