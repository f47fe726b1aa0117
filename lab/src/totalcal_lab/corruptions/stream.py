"""Corrupt any number of images, block by block, with the same result however they are cut into batches.

The result may go to files in the layout of CIFAR-10-C, or one image in all its corruptions on a sheet.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from totalcal.errors import InputError, ShapeError
from totalcal.files import map_npy, npz_names, read_npz, read_picture
from totalcal_lab.corruptions.kernels import BLOCK, BlockDraws, from_grey, stable_seed, to_grey
from totalcal_lab.corruptions.registry import CORRUPTIONS, SEVERITIES, corruption

if TYPE_CHECKING:
    from PIL.Image import Image as Picture


Images = TypeVar("Images", NDArray[np.uint8], Tensor)

SMALLEST_SIDE = 8


def corrupt(
    images: Images,
    type: str,
    severity: int,
    seed: int = 0,
    *,
    dataset: str = "",
    start: int = 0,
    frost_dir: str | Path | None = None,
) -> Images:
    """Images, corrupted at the strength of CIFAR-10-C.

    What happens to an image is a function of (seed, dataset, type, severity) and of its place in the data
    set.

    Args:
        images: uint8 [batch, side, side, 3], or [batch, side, side] for grey; an array or a tensor.
        type: One of `CORRUPTIONS`.
        severity: 1 to 5.
        seed: Another one gives other draws.
        dataset: The name of the data set, part of the key of all draws.
        start: The place of the first image in the data set: give it when `images` is a part of a larger one.
        frost_dir: A folder of frost photographs, for `frost`; without it, textures are drawn.

    Returns:
        Images of the same kind and shape.

    Raises:
        UnknownNameError: For a type that there is not.
        InputError: For another severity, or images that are not bytes.
        ShapeError: For images that are not square, or smaller than 8 pixels.

    Example:
        >>> images = np.full((200, 32, 32, 3), 128, dtype=np.uint8)
        >>> foggy = corrupt(images, "fog", severity=3)
        >>> bool((corrupt(images[150:], "fog", severity=3, start=150) == foggy[150:]).all())
        True
    """
    result: Any = np.empty_like(images) if isinstance(images, np.ndarray) else torch.empty_like(images)
    blocks = corrupted_blocks(images, type, severity, seed, dataset=dataset, start=start, frost_dir=frost_dir)
    for rows, block in blocks:
        result[rows] = block
    return result  # type: ignore[no-any-return]


def corrupted_blocks(
    images: Images,
    type: str,
    severity: int,
    seed: int = 0,
    *,
    dataset: str = "",
    start: int = 0,
    frost_dir: str | Path | None = None,
) -> Iterator[tuple[slice, Images]]:
    """`corrupt`, a block of at most 128 images at a time: (rows of `images`, those rows corrupted).

    Nothing larger than a block is kept, so `images` may be a memory-mapped file of any length.
    """
    _check(images)
    function = corruption(type, severity, frost_dir)
    for number, rows in _blocks(start, start + len(images)):
        here = slice(rows.start - start, rows.stop - start)
        block = _as_tensor(images[here])
        within = slice(rows.start - number * BLOCK, rows.stop - number * BLOCK)
        draws = BlockDraws(stable_seed(seed, dataset, type, severity, number), within, block.device)
        with torch.inference_mode():  # a view or a small sum costs two thirds
            grey = block.ndim == 3
            corrupted = to_grey(function(from_grey(block), draws)) if grey else function(block, draws)
        yield here, corrupted.numpy() if isinstance(images, np.ndarray) else corrupted.clone()


def _blocks(start: int, stop: int) -> Iterator[tuple[int, slice]]:
    """The blocks that the places start … stop − 1 of a data set fall in, and which places of each.

    >>> list(_blocks(100, 300))
    [(0, slice(100, 128, None)), (1, slice(128, 256, None)), (2, slice(256, 300, None))]
    """
    for number in range(start // BLOCK, -(-stop // BLOCK)):
        yield number, slice(max(start, number * BLOCK), min(stop, (number + 1) * BLOCK))


def _as_tensor(images: NDArray[np.uint8] | Tensor) -> Tensor:
    """No copy if it can be helped: no corruption writes to the images that it is given."""
    if isinstance(images, Tensor):
        return images.contiguous()
    array = np.ascontiguousarray(images)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _check(images: NDArray[np.uint8] | Tensor) -> None:
    shape = tuple(images.shape)
    if images.dtype not in (np.uint8, torch.uint8):
        raise InputError(f"images must be bytes (uint8, 0 … 255), not {images.dtype}.")
    if not (len(shape) == 3 or (len(shape) == 4 and shape[3] == 3)):
        raise ShapeError(
            f"images must be [batch, side, side, 3], or [batch, side, side] for grey, not {shape}."
        )
    if shape[1] != shape[2] or shape[1] < SMALLEST_SIDE:
        raise ShapeError(
            f"images must be square with a side of at least {SMALLEST_SIDE} pixels, not {shape[1:3]}."
        )


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
    from PIL import Image, ImageOps

    square = ImageOps.fit(read_picture(path), (side, side), Image.Resampling.LANCZOS)
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
    _check(images)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for type in types:
        unfinished = folder / f"{type}.npy.{os.getpid()}.part"  # another process may do the same
        shape = (len(SEVERITIES) * len(images), *images.shape[1:])
        try:
            file = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.uint8, shape=shape)
            _take_room(unfinished)
            for number, severity in enumerate(SEVERITIES):
                part = file[number * len(images) : (number + 1) * len(images)]
                blocks = corrupted_blocks(images, type, severity, seed, dataset=dataset, frost_dir=frost_dir)
                for rows, block in blocks:
                    part[rows] = block
            file.flush()
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        yield unfinished.replace(folder / f"{type}.npy")


def _take_room(path: Path) -> None:
    """Have a full disk say so now: where a mapped file finds no room, the process ends with a bus error."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


_GAP: Final = 2
_LABEL: Final = 116  # pixels that the longest name takes
_LINE: Final = 12  # height of a line of text


def contact_sheet(image: NDArray[np.uint8], seed: int = 0) -> "Picture":
    """One row per type, one column per severity, names on the left."""
    from PIL import Image, ImageDraw

    step = len(image) + _GAP
    sheet = Image.new("RGB", (_LABEL + len(SEVERITIES) * step, len(CORRUPTIONS) * step), "white")
    pen = ImageDraw.Draw(sheet)
    for row, type in enumerate(CORRUPTIONS):
        pen.text((_GAP, row * step + (step - _LINE) // 2), type, fill="black")
        for column, severity in enumerate(SEVERITIES):
            corrupted = corrupt(image[None], type, severity, seed)[0]
            sheet.paste(Image.fromarray(corrupted), (_LABEL + column * step, row * step))
    return sheet
