"""A folder of pictures as data to train on, scaled as a whole and ready for `fit`, `calibrate` and `save`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from totalcal.data.preprocessing import PictureSteps, Preprocessing, is_hidden, pictures_below
from totalcal.errors import DataError, ShapeError
from totalcal.files.reading import unreadable
from totalcal.types import Batch

_NO_CLASS = -1
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class ImageFolder:
    """What a folder of pictures gives; `fit`, `remember`, `evaluate` and `calibrate` take it as it is.

    Attributes:
        images: Rows × height × width × channels, uint8.
        labels: Their classes, by number; −1 for pictures of no class.
        classes: The names of the classes in the order of the labels.
        steps: What was done to every picture.
        mean: Of each channel over the training folder, in [0, 1].
        deviation: Likewise.
        skipped: Pictures that could not be read, with the reason.
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    steps: PictureSteps
    mean: Tensor
    deviation: Tensor
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """The standardised pictures, channels × height × width, and their labels; shuffled by a generator."""
        rows = torch.arange(len(self))
        if generator is not None:
            rows = torch.randperm(len(self), generator=generator)
        for some in rows.split(batch_size):
            yield Batch(self._standardised(self.images[some]), self.labels[some])

    def whole(self) -> Batch:
        """Everything in one batch."""
        return Batch(self._standardised(self.images), self.labels)

    @property
    def preprocessing(self) -> Preprocessing:
        """For `save(model, path, preprocessing=…)`: `totalcal predict` then treats new pictures alike."""
        mean, scale = self.mean[:, None, None].double(), self.deviation[:, None, None].double()
        return Preprocessing(self.steps.shape, mean, scale, pictures=self.steps)

    def _standardised(self, images: Tensor) -> Tensor:
        scaled = torch.addcmul(-self.mean / self.deviation, images.float(), 1 / (255 * self.deviation))
        return scaled.permute(0, 3, 1, 2)


def from_image_folder(
    folder: str | Path,
    size: tuple[int, int],
    colour: bool = True,
    like: ImageFolder | None = None,
    *,
    crop: bool = False,
    strict: bool = True,
) -> ImageFolder:
    """A folder of pictures with one folder per class, `folder/CLASS/picture.png`, or deeper in it.

    Args:
        folder: The folder.
        size: Height and width that every picture is brought to.
        colour: Whether there are three channels, or one.
        like: The training folder, whose classes, scaling, colour and crop are taken over. Pictures of other
            classes have the label −1: they are of no class, and may be an OOD set.
        crop: Whether the middle of a picture is cut out in the form of `size`, instead of stretching it.
        strict: Whether a picture that cannot be read, and a class without pictures, is an error; if not, it
            is left out and named in `skipped`.

    Returns:
        The data, and the classes: the names of the folders, in alphabetical order. Hidden ones, such as
            `.ipynb_checkpoints`, are not classes. `preprocessing` is for `save`.

    Raises:
        DataError: If there are no pictures, or, with `strict`, one of them cannot be read.
        ShapeError: If the size is not that of `like`.
        MissingExtraError: Without Pillow.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("cat", "dog"):
        ...         (Path(folder) / name).mkdir()
        ...         Image.new("RGB", (40, 30)).save(Path(folder) / name / "1.png")
        ...     train = from_image_folder(folder, size=(32, 32))
        >>> train.classes, train.whole().inputs.shape
        (('cat', 'dog'), torch.Size([2, 3, 32, 32]))
    """
    root = Path(folder)
    with unreadable(root, f"a folder: expected {root}/CLASS/NAME.png, .jpg, …", "Give another folder."):
        found = sorted(path.name for path in root.iterdir() if path.is_dir() and not is_hidden(path))
    steps = PictureSteps((size[0], size[1]), colour, crop) if like is None else like.steps
    if steps.size != tuple(size):
        raise ShapeError(f"`like` has pictures of {steps.size}, but size is {tuple(size)}: give the same.")
    files = {name: pictures_below(root / name) for name in found}
    skipped: list[str] = []
    for name in [name for name in found if like is None and not files[name]]:
        skipped.append(f"{root / name} holds no pictures, so it would be a class without rows.")
        found.remove(name)
        if strict and any(files.values()):
            raise DataError(f"{skipped[-1]} Remove it, or give strict=False to leave it out.")
    classes = tuple(found) if like is None else like.classes
    places = {name: label for label, name in enumerate(classes)}
    images: list[NDArray[np.uint8]] = []
    labels: list[int] = []
    for name in found:
        for file in files[name]:
            try:
                images.append(steps(root / name / file))
                labels.append(places.get(name, _NO_CLASS))
            except DataError as error:
                if strict:
                    raise DataError(f"{error} Or give strict=False, to leave such pictures out.") from error
                skipped.append(str(error))
    if not images:
        raise DataError(f"{root} holds no pictures: expected {root}/CLASS/NAME.png, .jpg, …")
    pixels = torch.from_numpy(np.stack(images)).reshape(len(images), *steps.size, steps.shape[0])
    scaling = _scaling(pixels) if like is None else (like.mean, like.deviation)
    return ImageFolder(pixels, torch.tensor(labels), classes, steps, *scaling, tuple(skipped))


def _scaling(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel in [0, 1]; that of a constant channel is 1."""
    channels = pixels.shape[-1]
    total, squares = torch.zeros(2, channels, dtype=torch.float64)
    for block in pixels.split(_BLOCK):
        values = block.reshape(-1, channels).double() / 255
        total, squares = total + values.sum(0), squares + values.square().sum(0)
    count = pixels.numel() / channels
    deviation = (squares / count - (total / count).square()).clamp_min(0).sqrt()
    deviation[deviation < 1e-6] = 1.0
    return (total / count).float(), deviation.float()
