"""What is done to a picture before a model sees it, the same for training folders and for new pictures."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from totalcal.errors import InputError
from totalcal.reading import read_picture

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

        picture = read_picture(path, "RGB" if self.colour else "L")
        wanted = self.size[::-1]
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


def picture_files(folder: Path) -> list[Path]:
    """The pictures of a folder in the order of their names; what else lies there is nobody's input."""
    files = (file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    return sorted(file for file in files if not is_hidden(file))


def is_hidden(path: Path) -> bool:
    """What programs leave beside one's pictures: `.ipynb_checkpoints`, `._1.png`, `__MACOSX`.

    >>> is_hidden(Path("pictures/.ipynb_checkpoints"))
    True
    """
    return path.name.startswith((".", "__"))
