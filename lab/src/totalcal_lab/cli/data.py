"""`totalcal-lab data`: which sets there are, fetching, verifying. `totalcal-lab corrupt`: corruption."""

import json
from pathlib import Path
from typing import Annotated

import typer

from totalcal.cli import Example, ExitCode, ends_in
from totalcal_lab.cli.app import app

data = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Data sets: list, fetch and verify them, and say where they are.",
)
app.add_typer(data, name="data", rich_help_panel="Data")

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="A folder that holds sets, each in a folder of its name.")
]
Names = Annotated[list[str] | None, typer.Argument(help="Names of sets; all of them if none is given.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


@data.command("list", epilog=Example("totalcal-lab data list"))
def list_sets(as_json: AsJson = False) -> None:
    """List all sets, with their sizes and terms."""
    from totalcal_lab.data.catalogue import CATALOGUE

    rows = [
        {
            "name": entry.name,
            "title": entry.title,
            "splits": {name: split.count for name, split in entry.splits.items()},
            "examples": sum(split.count for split in entry.splits.values()),
            "classes": entry.num_classes,
            "terms": entry.terms,
            "homepage": entry.homepage,
        }
        for entry in CATALOGUE.values()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        typer.echo(f"{row['name']:18} {row['title']}\n{'':18} {row['examples']} examples; {row['terms']}")


@data.command(epilog=Example("totalcal-lab data fetch fashion-mnist mnist"))
def fetch(
    names: Annotated[list[str], typer.Argument(help="Names of sets; see `totalcal-lab data list`.")],
    data_dir: DataDir = None,
) -> None:
    """Fetch sets into the cache, and decode them."""
    from totalcal_lab.data.loading import entry, load_with_statistics

    for dataset in [entry(name) for name in names]:
        for split in dataset.splits:
            decoded = load_with_statistics(dataset.name, split, data_dir, report=typer.echo)
            typer.echo(f"{dataset.name}/{split}: {len(decoded.arrays.labels)} examples")


@data.command(epilog=Example("totalcal-lab data verify digits iris"))
def verify(names: Names = None, data_dir: DataDir = None) -> None:
    """Check digests, counts and known means of the sets on this machine."""
    from totalcal_lab.data.catalogue import CATALOGUE
    from totalcal_lab.data.loading import entry, findings

    wrong = False
    for finding in findings([entry(name).name for name in names or CATALOGUE], data_dir):
        mean, std = (
            " ".join(f"{value:.4f}" for value in values[:3]) for values in (finding.mean, finding.std)
        )
        wrong |= bool(finding.problem)
        verdict = (
            f"WRONG: {finding.problem}"
            if finding.problem
            else f"right ({finding.known_by or finding.source})"
        )
        name = f"{finding.name}/{finding.split}"
        typer.echo(f"{name:24} {finding.examples:6}  mean {mean:22} std {std:22} {verdict}")
    if wrong:
        raise typer.Exit(ExitCode.FAILED)


@data.command(epilog=Example("totalcal-lab data where mnist"))
def where(names: Names = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Say where each set is on this machine; fetches nothing."""
    from totalcal_lab.data.catalogue import CATALOGUE
    from totalcal_lab.data.loading import entry
    from totalcal_lab.data.sources import locate

    places = {}
    for dataset in [entry(name) for name in names or CATALOGUE]:
        for split in dataset.splits:
            found = locate(dataset, split, data_dir) if dataset.on_disk else None
            nowhere = "nowhere" if dataset.on_disk else "made on the spot"
            places[f"{dataset.name}/{split}"] = f"{found.folder} ({found.source})" if found else nowhere
    if as_json:
        typer.echo(json.dumps(places, indent=1))
        return
    for name, place in places.items():
        typer.echo(f"{name:32} {place}")


@app.command(rich_help_panel="Data", epilog=Example("totalcal-lab corrupt picture.png --sheet sheet.png"))
def corrupt(
    source: Path = typer.Argument(
        ..., exists=True, dir_okay=False, help="A .npy of bytes, a .npz with `images`, or a picture."
    ),
    sheet: Path | None = typer.Option(
        None,
        callback=ends_in(".png", ".jpg", ".pdf"),
        help="Draw one image in 19 types × 5 severities to this file: .png, .jpg or .pdf.",
    ),
    save: Path | None = typer.Option(
        None, help="Write TYPE.npy to this folder, in the layout of CIFAR-10-C."
    ),
    types: list[str] | None = typer.Option(None, "--type", help="Save this type only; may be repeated."),
    index: int = typer.Option(0, help="Which image the sheet shows."),
    side: int = typer.Option(32, min=8, help="The side that a picture is resized to."),
    seed: int = typer.Option(0, help="Seed of the random draws."),
    dataset: str = typer.Option("", help="Name of the data set, part of the key of all draws."),
    frost_dir: Path | None = typer.Option(None, help="Folder of frost1.png … if you have the photographs."),
) -> None:
    """Corrupt images in 19 ways at 5 severities, at the strength of CIFAR-10-C."""
    from totalcal_lab.corruptions import CORRUPTIONS
    from totalcal_lab.corruptions.stream import contact_sheet, read_images, save_corrupted

    if sheet is None and save is None:
        raise typer.BadParameter("say what to make: --sheet FILE, --save FOLDER, or both.")
    images = read_images(source, side)
    if sheet is not None:
        if not 0 <= index < len(images):
            raise typer.BadParameter(f"--index {index}: {source} has {len(images)} images, counted from 0.")
        contact_sheet(images[index], seed).save(sheet)
        typer.echo(f"wrote {sheet}")
    if save is not None:
        for file in save_corrupted(
            images, save, types or CORRUPTIONS, seed, dataset=dataset, frost_dir=frost_dir
        ):
            typer.echo(f"wrote {file}")
