"""totalcal corrupt: the corruption benchmark on images of your own."""

from pathlib import Path

import typer

from totalcal.cli.app import app


@app.command(rich_help_panel="Data")
def corrupt(
    source: Path = typer.Argument(
        ..., exists=True, dir_okay=False, help="A .npy of bytes, a .npz with `images`, or a picture."
    ),
    sheet: Path | None = typer.Option(None, help="Draw one image in 19 types × 5 severities to this file."),
    save: Path | None = typer.Option(
        None, help="Write TYPE.npy to this folder, in the layout of CIFAR-10-C."
    ),
    types: list[str] | None = typer.Option(None, "--type", help="Save this type only; may be repeated."),
    index: int = typer.Option(0, help="Which image the sheet shows."),
    side: int = typer.Option(32, min=8, help="The side that a picture is resized to."),
    seed: int = typer.Option(0, help="Other seeds, other draws."),
    dataset: str = typer.Option("", help="Name of the data set, part of the key of all draws."),
    frost_dir: Path | None = typer.Option(None, help="Folder of frost1.png … if you have the photographs."),
) -> None:
    """Corrupt images in 19 ways at 5 severities, at the strength of CIFAR-10-C.

    Example: totalcal corrupt picture.png --sheet sheet.png
    """
    from totalcal.corruptions import CORRUPTIONS
    from totalcal.corruptions.files import contact_sheet, read_images, save_corrupted

    if sheet is None and save is None:
        raise typer.BadParameter("say what to make: --sheet FILE, --save FOLDER, or both.")
    images = read_images(source, side)
    if sheet is not None:
        contact_sheet(images[index], seed).save(sheet)
        typer.echo(f"wrote {sheet}")
    if save is not None:
        for file in save_corrupted(
            images, save, types or CORRUPTIONS, seed, dataset=dataset, frost_dir=frost_dir
        ):
            typer.echo(f"wrote {file}")
