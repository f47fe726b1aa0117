"""Data of one's own as `ArrayData`: an image folder, an `.npz`, a table, any torch `Dataset` or `DataLoader`.

`like` is the training set whose scaling (and classes, for a folder) a test or foreign set must follow.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from totalcal.data.batches import ArrayData, Scaling
from totalcal.data.cache import statistics
from totalcal.errors import DataError, InputError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

PICTURES = {".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True)
class ImageFolder:
    """What a folder of pictures gives: the data, and the names of the classes in the order of the labels."""

    data: ArrayData
    classes: tuple[str, ...]


def from_arrays(inputs: NDArray[Any], labels: NDArray[Any], like: ArrayData | None = None) -> ArrayData:
    """NumPy arrays: uint8 images [n, h, w] or [n, h, w, c], integer tokens [n, length], or a float table."""
    if inputs.dtype.kind == "f":
        inputs = inputs.astype(np.float32)
    elif inputs.dtype.kind in "iu" and inputs.dtype != np.uint8:
        inputs = inputs.astype(np.int64)
    if not np.isfinite(inputs).all():
        raise InputError("the inputs hold values that are not finite: fill or drop them first.")
    known = statistics(inputs)
    own = Scaling(*known) if known.mean else None
    return ArrayData.from_arrays(inputs, labels, like.scaling if like is not None else own)


def from_image_folder(
    folder: str | Path, size: tuple[int, int], colour: bool = True, like: ImageFolder | None = None
) -> ImageFolder:
    """`folder/CLASS/picture.png`, every picture brought to `size` (height, width); classes by alphabet."""
    root = Path(folder)
    names = (
        like.classes
        if like is not None
        else tuple(sorted(path.name for path in root.iterdir() if path.is_dir()))
    )
    files = [(file, label) for label, name in enumerate(names) for file in _pictures(root / name)]
    if not files:
        raise DataError(f"{root} holds no pictures: expected {root}/CLASS/NAME.png, .jpg, …")
    images = np.stack([_image(file, size, colour) for file, _ in files])
    labels = np.array([label for _, label in files])
    return ImageFolder(from_arrays(images, labels, like.data if like is not None else None), names)


def from_npz(
    path: str | Path, inputs: str = "inputs", labels: str = "labels", like: ArrayData | None = None
) -> ArrayData:
    """Two arrays of an `.npz` file, by their names in it."""
    with np.load(path, allow_pickle=False) as bundle:
        missing = {inputs, labels} - set(bundle.files)
        if missing:
            raise DataError(
                f"{path} has no array {' or '.join(sorted(missing))}: it has {', '.join(bundle.files)}."
            )
        return from_arrays(bundle[inputs], bundle[labels], like)


def from_table(frame: "pd.DataFrame", label: str, like: ArrayData | None = None) -> ArrayData:
    """A pandas table of numbers with a column of classes, which are numbered in sorted order."""
    if label not in frame.columns:
        raise DataError(f"the table has no column {label!r}: it has {', '.join(map(str, frame.columns))}.")
    _, labels = np.unique(frame[label].to_numpy(), return_inverse=True)
    return from_arrays(frame.drop(columns=label).to_numpy(dtype=np.float32), labels, like)


def from_dataset(dataset: Iterable[Any]) -> ArrayData:
    """Any `Dataset` of (input, label) pairs or `DataLoader` of batches, read once; inputs stay unscaled."""
    inputs: list[Tensor] = []
    labels: list[Tensor] = []
    for example, label in dataset:
        single = torch.as_tensor(label).ndim == 0
        inputs.append(torch.as_tensor(example)[None] if single else torch.as_tensor(example))
        labels.append(torch.as_tensor(label).reshape(-1))
    if not labels:
        raise InputError("the data set is empty.")
    joined = torch.cat(inputs)
    if joined.ndim == 4:
        joined = joined.permute(0, 2, 3, 1)  # a torch picture has its channels first, ours last
    return ArrayData(joined, torch.cat(labels).long())


def _pictures(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*") if file.suffix.lower() in PICTURES)


def _image(path: Path, size: tuple[int, int], colour: bool) -> NDArray[np.uint8]:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError("pillow", "data", "reading pictures") from error
    try:
        with Image.open(path) as image:
            shown = image.convert("RGB" if colour else "L")
            return np.asarray(shown.resize(size[::-1], resample=Image.Resampling.BICUBIC))
    except (OSError, UnidentifiedImageError) as error:
        raise DataError(f"{path} is no readable picture: {error}") from error
