"""Corrupted data sets as files in the layout of CIFAR-10-C; one image in all its corruptions on a sheet."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from totalcal.corruptions.blocks import pillow
from totalcal.corruptions.registry import CORRUPTIONS, SEVERITIES
from totalcal.corruptions.stream import corrupt, corrupted_blocks
from totalcal.errors import InputError
from totalcal.reading import map_npy, npz_names, read_npz, read_picture

if TYPE_CHECKING:
    from PIL.Image import Image


def read_images(path: str | Path, side: int = 32) -> NDArray[np.uint8]:
    """Images of a .npy, the `images` of a .npz, or one picture, cut square and resized to `side`."""
    path = Path(path)
    if path.suffix == ".npy":
        return np.asarray(map_npy(path))
    if path.suffix != ".npz":
        return _read_picture(path, side)
    if "images" not in (found := read_npz(path, ["images"])):
        raise InputError(f"{path} holds {', '.join(npz_names(path))}, but no array named images.")
    return found["images"]


def _read_picture(path: Path, side: int) -> NDArray[np.uint8]:
    image, operations = (pillow(module, "reading a picture") for module in ("Image", "ImageOps"))
    square = operations.fit(read_picture(path), (side, side), image.Resampling.LANCZOS)
    return np.asarray(square)[None]


def save_corrupted(
    images: NDArray[np.uint8],
    folder: str | Path,
    types: Iterable[str],
    seed: int = 0,
    *,
    dataset: str = "",
    frost_dir: str | Path | None = None,
) -> Iterator[Path]:
    """Write folder/TYPE.npy, all images at severity 1, then at 2, …; yields each file when it is complete."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for type in types:
        unfinished = folder / f"{type}.npy.part"
        shape = (len(SEVERITIES) * len(images), *images.shape[1:])
        file = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.uint8, shape=shape)
        for number, severity in enumerate(SEVERITIES):
            part = file[number * len(images) : (number + 1) * len(images)]
            blocks = corrupted_blocks(images, type, severity, seed, dataset=dataset, frost_dir=frost_dir)
            for rows, block in blocks:
                part[rows] = block
        file.flush()
        yield unfinished.replace(folder / f"{type}.npy")


_GAP: Final = 2
_LABEL: Final = 116  # pixels that the longest name takes
_LINE: Final = 12  # height of a line of text


def contact_sheet(image: NDArray[np.uint8], seed: int = 0) -> "Image":
    """One row per type, one column per severity, names on the left."""
    pictures, drawing = (pillow(module, "a contact sheet") for module in ("Image", "ImageDraw"))
    step = len(image) + _GAP
    sheet: Image = pictures.new("RGB", (_LABEL + len(SEVERITIES) * step, len(CORRUPTIONS) * step), "white")
    pen = drawing.Draw(sheet)
    for row, type in enumerate(CORRUPTIONS):
        pen.text((_GAP, row * step + (step - _LINE) // 2), type, fill="black")
        for column, severity in enumerate(SEVERITIES):
            corrupted = corrupt(image[None], type, severity, seed)[0]
            sheet.paste(pictures.fromarray(corrupted), (_LABEL + column * step, row * step))
    return sheet
