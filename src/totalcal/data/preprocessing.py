"""What is done to rows and pictures before a model sees them, the same in training and for new ones."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from totalcal.errors import InputError, NotFiniteError, ShapeError
from totalcal.files.reading import read_picture

if TYPE_CHECKING:  # pictures are read for exported models too, where there may be no torch
    import torch
    from torch import Tensor

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
_LARGEST_SIDE = 1 << 14


@dataclass(frozen=True)
class PictureSteps:
    """Upright, in 8 bits, transparency on white (`read_picture`); then grey or colour, cropped, resized.

    Attributes:
        size: Height and width.
        colour: Three channels, or one.
        crop: Whether the middle is cut out in the form of `size` first; otherwise the picture is stretched.

    >>> PictureSteps((8, 8)).shape
    (3, 8, 8)
    """

    size: tuple[int, int]
    colour: bool = True
    crop: bool = False

    def __post_init__(self) -> None:
        if len(self.size) != 2 or not all(isinstance(n, int) and 0 < n <= _LARGEST_SIDE for n in self.size):
            raise InputError(f"a picture's size is (height, width) of 1 to {_LARGEST_SIDE}, not {self.size}.")

    def __call__(self, path: Path) -> NDArray[np.uint8]:
        """The pixels of a file, height × width, with three channels at the end for colour."""
        from PIL import ImageOps
        from PIL.Image import Resampling

        wanted = self.size[::-1]
        picture = read_picture(path, "RGB" if self.colour else "L", wanted=wanted)
        if self.crop:
            return np.asarray(ImageOps.fit(picture, wanted, method=Resampling.BICUBIC))
        return np.asarray(picture.resize(wanted, resample=Resampling.BICUBIC))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of an input: channels × height × width."""
        return (3 if self.colour else 1, *self.size)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        return cls(tuple(content["size"]), bool(content["colour"]), bool(content["crop"]))


def pictures_below(folder: Path) -> list[str]:
    """The pictures of a folder and its sub-folders in the order of their paths, which start at the folder."""
    return sorted(_pictures_below(folder), key=lambda path: path.split("/"))


def _pictures_below(folder: Path, above: str = "") -> Iterator[str]:
    for entry in os.scandir(folder):
        if is_hidden(Path(entry.name)):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _pictures_below(folder / entry.name, f"{above}{entry.name}/")
        elif Path(entry.name).suffix.lower() in SUFFIXES:
            yield above + entry.name


def is_hidden(path: Path) -> bool:
    """What programs leave beside one's pictures: `.ipynb_checkpoints`, `._1.png`, `__MACOSX`.

    >>> is_hidden(Path("pictures/.ipynb_checkpoints"))
    True
    """
    return path.name.startswith((".", "__"))


@dataclass(frozen=True)
class Preprocessing:
    """What rows and pictures go through before a model: (x − mean) / scale for rows of one `shape`.

    Mean and scale broadcast against the shape. Images are channels × height × width with values in [0, 1];
    `pictures` says how a file becomes one, if it is known. A table may name its `columns`.
    """

    shape: tuple[int, ...]
    mean: "Tensor"
    scale: "Tensor"
    columns: tuple[str, ...] | None = None
    pictures: PictureSteps | None = None

    def __post_init__(self) -> None:
        if self.pictures is not None and self.pictures.shape != self.shape:
            raise ShapeError(f"pictures become {self.pictures.shape}, but the model takes {self.shape}.")
        for name, part in (("mean", self.mean), ("scale", self.scale)):
            try:
                fits = np.broadcast_shapes(tuple(part.shape), self.shape) == tuple(self.shape)
            except ValueError:
                fits = False
            if not fits:
                raise ShapeError(
                    f"{name} has the shape {tuple(part.shape)}, which rows of {self.shape} lack."
                )
        mean, scale = np.asarray(self.mean), np.asarray(self.scale)
        if not (np.isfinite(mean).all() and np.isfinite(scale).all() and scale.all()):
            raise InputError("the mean and the scale of rows are finite, and no scale is 0.")

    @classmethod
    def fitted(cls, rows: npt.ArrayLike, columns: Sequence[str] | None = None) -> Self:
        """Mean 0 and variance 1 for every entry of a row; an entry that never varies is only shifted."""
        import torch

        values = np.asarray(rows, dtype=np.float64)
        scale = values.std(axis=0)
        scale[scale <= 10 * np.finfo(np.float64).eps * np.abs(values).max(axis=0)] = 1.0
        names = None if columns is None else tuple(columns)
        return cls(values.shape[1:], torch.from_numpy(values.mean(axis=0)), torch.from_numpy(scale), names)

    def __call__(self, rows: npt.ArrayLike, dtype: "torch.dtype | None" = None) -> "Tensor":
        """The rows as a model takes them, in float32 unless given; the arithmetic is in float64.

        The columns of a data frame are found by name, as those of a file, if the model knows names.
        """
        import torch

        given = numbers(by_name(rows, self.columns), self.columns)
        values = torch.from_numpy(given.copy())  # the rows may be read-only
        if values.shape[1:] != self.shape:
            raise ShapeError(
                f"the model takes rows of shape {self.shape}, but these have {tuple(values.shape[1:])}."
            )
        return ((values - self.mean) / self.scale).to(dtype or torch.float32)


def by_name(rows: Any, columns: Sequence[str] | None) -> Any:
    """The columns of a data frame that a model knows, in its order; anything else as it is.

    Raises:
        InputError: If a column is not there.
    """
    if columns is None or not hasattr(rows, "iloc"):
        return rows
    there = {str(name): name for name in rows.columns}
    missing = [name for name in columns if name not in there]
    if missing:
        raise InputError(f"the table lacks the column {missing[0]!r} ({len(missing)} are missing).")
    return rows[[there[name] for name in columns]]


def numbers(
    rows: Any, columns: Sequence[str] | None = None, *, missing: bool = False
) -> npt.NDArray[np.float64]:
    """Rows in float64; what is missing in a data frame is NaN.

    Args:
        rows: A data frame, or anything that is like an array.
        columns: Their names, if a message can name them.
        missing: Whether values may be missing, as before an imputer.

    Raises:
        InputError: If a value is not a number.
        NotFiniteError: If one is not finite and stands in a column with a name.

    >>> numbers([[1, 2]], ["a", "b"])
    array([[1., 2.]])
    """
    try:
        values = (
            rows.to_numpy(np.float64, na_value=np.nan) if hasattr(rows, "iloc") else np.asarray(rows, float)
        )
    except (TypeError, ValueError) as error:
        raise InputError(_not_a_number(np.asarray(rows, dtype=object), columns) or str(error)) from error
    if not missing and columns is not None and values.ndim == 2 and not np.isfinite(values.sum()):
        bad = np.argwhere(~np.isfinite(values))
        if len(bad) and values.shape[1] == len(columns):
            raise NotFiniteError(
                f"the column {columns[bad[0, 1]]!r} holds NaN or infinity in row {bad[0, 0]}; of "
                f"{len(values)} rows {len(np.unique(bad[:, 0]))} have some. Drop or impute them."
            )
    return values


def _not_a_number(values: npt.NDArray[np.object_], columns: Sequence[str] | None) -> str | None:
    """Where the first value stands that is no number."""
    for place in np.ndindex(values.shape):
        try:
            float(values[place])
        except (TypeError, ValueError):
            shown = f"{values[place]!r:.60} in row {place[0]}, which is not a number"
            if columns is None or len(place) != 2 or values.shape[1] != len(columns):
                return f"the rows hold {shown}."
            return f"the column {columns[place[1]]!r} holds {shown}."
    return None
