"""Corrupted data sets as files, in the layout of CIFAR-10-C."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from totalcal.corruptions.extras import pillow
from totalcal.corruptions.severities import SEVERITIES
from totalcal.corruptions.stream import corrupted_blocks
from totalcal.errors import InputError
from totalcal.reading import map_npy, npz_names, read_npz, read_picture


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
