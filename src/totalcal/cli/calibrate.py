"""`totalcal calibrate`, `totalcal report`: from a trained net to a model one can trust, and its page."""

from pathlib import Path
from typing import Any

import typer

from totalcal.cli.app import MEMORY, OWN_BACKBONE, Example, app, ends_in

_LABEL = typer.Option("label", help="The column of a table that holds the labels.")


@app.command(
    rich_help_panel="Start here",
    epilog=Example("totalcal calibrate --backbone nets:mine --train a.npz --held-out b.npz -o it.totalcal"),
)
def calibrate(
    given: Path | None = typer.Argument(
        None,
        help="A model file; or probabilities with labels, .csv, .parquet, .npz or .npy, of all classes or of "
        "the positive one; or give --backbone.",
    ),
    train: Path | None = typer.Option(
        None, help="Rows that trained the net: an .npz of `inputs` and `labels`, or a table."
    ),
    held_out: Path | None = typer.Option(None, help="Rows that did not, likewise."),
    output: Path = typer.Option(
        ..., "--output", "-o", callback=ends_in(".totalcal"), help="The file to write."
    ),
    backbone: str | None = OWN_BACKBONE,
    label: str = _LABEL,
    alpha: float = typer.Option(0.05, help='The rate of "not my domain" among inputs of the domain.'),
    beta: float = typer.Option(0.05, help='The rate of "ask" among the others answered correctly.'),
    keep_rows: bool = typer.Option(
        True, help="Keep features of some held-out rows, which learning a new class needs."
    ),
    memory: Any = MEMORY,
) -> None:
    """Calibrate a trained net: honest probabilities, a memory of its domain, decisions with promises."""
    from totalcal.calibration.from_files import calibrate_files

    model = calibrate_files(
        given,
        train,
        held_out,
        backbone=backbone,
        label=label,
        alpha=alpha,
        beta=beta,
        keep_rows=keep_rows,
    )
    model.save(output)
    typer.echo(f"{model}\nwritten to {output}")


@app.command(rich_help_panel="Judge", epilog=Example("totalcal audit it.totalcal train.npz -o audit.html"))
def audit(
    file: Path = typer.Argument(..., help="A model file with a memory, as `totalcal calibrate` writes it."),
    rows: Path = typer.Argument(
        ..., help="Rows: an .npz of `inputs` and `labels`, or a table; without labels, what to label next."
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", callback=ends_in(".csv", ".html"), help="The table or the page to write."
    ),
    new: bool = typer.Option(False, "--new", help="The net was not trained on these rows."),
    backbone: str | None = OWN_BACKBONE,
    label: str = _LABEL,
    memory: Any = MEMORY,
) -> None:
    """Which rows should a person look at? Wrong labels, unfamiliar and ambiguous inputs, copies; in order."""
    from totalcal.calibration.from_files import audit_files

    found = audit_files(file, rows, output, backbone=backbone, label=label, new=new)
    typer.echo(f"{found}\nwritten to {output}")


@app.command(
    rich_help_panel="Models",
    epilog=Example("totalcal memorise it.totalcal new.npz --name autumn -o grown.totalcal"),
)
def memorise(
    file: Path = typer.Argument(..., help="A model file with a memory, as `totalcal calibrate` writes it."),
    rows: Path | None = typer.Argument(None, help="Rows: an .npz of `inputs` and `labels`, or a table."),
    output: Path = typer.Option(
        ..., "--output", "-o", callback=ends_in(".totalcal"), help="The file to write."
    ),
    name: str | None = typer.Option(None, help="What the rows are forgotten by later."),
    forget: str | None = typer.Option(None, help="In place of rows: a name to forget."),
    backbone: str | None = OWN_BACKBONE,
    label: str = _LABEL,
    memory: Any = MEMORY,
) -> None:
    """Learn new classes or domains from a few labelled rows, without training."""
    from totalcal.calibration.from_files import memorise_files

    typer.echo(memorise_files(file, rows, output, name=name, forget=forget, backbone=backbone, label=label))
    typer.echo(f"written to {output}")


@app.command(
    rich_help_panel="Judge",
    epilog=Example("totalcal report it.totalcal test.npz --ood letters.npz -o page.html"),
)
def report(
    file: Path = typer.Argument(..., help="A model file."),
    test: Path = typer.Argument(..., help="Test rows: an .npz of `inputs` and `labels`, or a table."),
    ood: list[Path] = typer.Option([], "--ood", help="Rows of another domain, likewise; may be repeated."),
    output: Path = typer.Option(
        Path("report.html"),
        "--output",
        "-o",
        callback=ends_in(".html", ".md"),
        help="A page, or a model card.",
    ),
    backbone: str | None = OWN_BACKBONE,
    label: str = _LABEL,
    memory: Any = MEMORY,
) -> None:
    """Judge a model before and after calibration, on test rows and other domains: one page."""
    from totalcal.calibration.from_files import report_files

    typer.echo(report_files(file, test, ood, output, backbone=backbone, label=label))
    typer.echo(f"written to {output}")
