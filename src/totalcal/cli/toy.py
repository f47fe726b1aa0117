"""`totalcal toy`: the paper's two toys, a figure and a few numbers each."""

import json
from pathlib import Path

import typer

from totalcal.cli.app import Example, app

toy = typer.Typer(no_args_is_help=True, help="The paper's two toys (appendix B), trained and drawn.")
app.add_typer(toy, name="toy", rich_help_panel="Learn")

_Seed = typer.Option(0, help="Of the data, the net and the draws.")
_Epochs = typer.Option(400, min=1, help="The paper's number is the default.")
_Json = typer.Option(False, "--json", help="Print the numbers as JSON.")


@toy.command("gaussians", epilog=Example("totalcal toy gaussians --out two-classes.png"))
def gaussians(
    out: Path = typer.Option(Path("toy-gaussians.png"), help="The figure: .png, .svg or .pdf."),
    seed: int = _Seed,
    epochs: int = _Epochs,
    as_json: bool = _Json,
) -> None:
    """Two overlapping classes on a line: where the memory places its evidence (appendix B.1)."""
    _run("gaussians", out, seed, epochs, as_json)


@toy.command("iris", epilog=Example("totalcal toy iris --seed 1 --json"))
def iris(
    out: Path = typer.Option(Path("toy-iris.png"), help="The figure: .png, .svg or .pdf."),
    seed: int = _Seed,
    epochs: int = _Epochs,
    as_json: bool = _Json,
) -> None:
    """Iris on two principal components: a map of the evidence for each species (appendix B.2)."""
    _run("iris", out, seed, epochs, as_json)


def _run(name: str, out: Path, seed: int, epochs: int, as_json: bool) -> None:
    from totalcal.studies.toys import run_toy
    from totalcal.studies.toys_report import draw_toy, numbers

    study = run_toy(name, seed, epochs)
    draw_toy(study, out)
    found = numbers(study)
    if as_json:
        typer.echo(json.dumps({**found._asdict(), "figure": str(out)}))
        return
    typer.echo(f"{out}: {found.accuracy:.0%} of the training points are predicted right.")
    typer.echo(f"right class has most evidence, away from the boundary: {found.right_class:.0%} of inputs")
    typer.echo(f"rank correlation of spread and distance from the boundary: {found.spread_correlation:.2f}")
