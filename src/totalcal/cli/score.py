"""`totalcal score`: judge predictions saved by any framework."""

from pathlib import Path

import typer

from totalcal.cli.app import Example, app


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
