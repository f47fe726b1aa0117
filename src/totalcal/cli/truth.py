"""`totalcal truth`: every model and rival against a truth that is known."""

from pathlib import Path

import typer

from totalcal.cli.app import Example, app


@app.command(rich_help_panel="Judge", epilog=Example("totalcal truth --figure truth.png"))
def truth(
    seeds: int = typer.Option(3, min=1, help="Training sets, and starts of the nets, for each size."),
    quick: bool = typer.Option(
        False, "--quick", help="A few steps on the smallest task: to see that it runs."
    ),
    jobs: int = typer.Option(2, min=1, help="Processes."),
    figure: Path | None = typer.Option(None, "--figure", help="Save the figure there (.png, .svg, .pdf)."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object with every measurement."),
) -> None:
    """Measure all seven models and the baselines on generated data: f_true, risk and density are exact."""
    from totalcal.studies.truth import QUICK, Plan, run
    from totalcal.studies.truth_report import to_json, to_text

    plan = (QUICK if quick else Plan())._replace(seeds=seeds)
    found = run(plan, jobs)
    typer.echo(to_json(found, plan) if as_json else to_text(found, plan))
    if figure is not None:
        from totalcal.studies.truth_report import draw_truth

        draw_truth(found, plan, figure)
