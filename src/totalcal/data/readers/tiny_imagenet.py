"""TinyImageNet's validation set: 64 × 64 JPEG files and a table of their WordNet ids."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from totalcal.data.arrays import Arrays, checked
from totalcal.errors import DataError, MissingExtraError

SIDE = 64


def read_tiny_imagenet(folder: Path, split: str) -> Arrays:
    """Images [n, 64, 64, 3], in the order of the table; a label is its line in `wnids.txt`."""
    ids = {wnid: label for label, wnid in enumerate((folder / "wnids.txt").read_text().split())}
    lines = (folder / "val" / "val_annotations.txt").read_text().splitlines()
    names, wnids = zip(*(_name_and_id(line) for line in lines), strict=True)
    unknown = set(wnids) - set(ids)
    if unknown:
        raise DataError(
            f"{folder}: val_annotations.txt names {sorted(unknown)[:3]}, which wnids.txt does not."
        )
    images = np.stack([_image(folder / "val" / "images" / name) for name in names])
    return checked(images, np.array([ids[wnid] for wnid in wnids]), len(ids), str(folder))


def _name_and_id(line: str) -> tuple[str, str]:
    fields = line.split("\t")
    if len(fields) < 2 or Path(fields[0]).name != fields[0]:
        raise DataError(
            f"val_annotations.txt: expected a file name, a tab and a WordNet id, found {line[:60]!r}."
        )
    return fields[0], fields[1]


def _image(path: Path) -> NDArray[np.uint8]:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError("pillow", "data", "reading JPEG files") from error
    try:
        with Image.open(path) as image:
            if image.size != (SIDE, SIDE):
                raise DataError(
                    f"{path} is {image.size[0]} × {image.size[1]} pixels, expected {SIDE} × {SIDE}."
                )
            return np.asarray(image.convert("RGB"))  # some are grey
    except (OSError, UnidentifiedImageError) as error:
        raise DataError(f"{path} is no readable image: {error}") from error
