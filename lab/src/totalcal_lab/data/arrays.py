"""A data set in one tensor: a batch is a slice of it, scaled and augmented as a whole, never row by row."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn import functional as F

from totalcal.errors import InputError, ShapeError, UnknownNameError
from totalcal.types import Batch

HELD_OUT = 5_000
SMALL = 50_000  # a smaller set holds out a tenth
Augment = Callable[[Tensor, Generator], Tensor]
PADDING = 4


class Statistics(NamedTuple):
    """Mean and standard deviation per channel (or column), images scaled to [0, 1]; empty for tokens."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


def statistics(inputs: NDArray[Any], block: int = 4096) -> Statistics:
    """Over all examples and pixels, one number per channel; in blocks, so that nothing large is copied.

    >>> statistics(np.array([[[0, 255]]], dtype=np.uint8))
    Statistics(mean=(0.5,), std=(0.5,))
    """
    if inputs.dtype == np.int64:
        return Statistics((), ())
    channels = inputs.shape[3] if inputs.ndim == 4 else (inputs.shape[1] if inputs.ndim == 2 else 1)
    total, squares, count = np.zeros(channels), np.zeros(channels), 0
    scale = 255.0 if inputs.dtype == np.uint8 else 1.0
    for start in range(0, len(inputs), block):
        rows = inputs[start : start + block].reshape(-1, channels).astype(np.float64) / scale
        total, squares, count = total + rows.sum(0), squares + (rows**2).sum(0), count + len(rows)
    mean = total / count
    std = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
    return Statistics(tuple(mean.tolist()), tuple(std.tolist()))


@dataclass(frozen=True)
class Scaling:
    """z = (x − mean) / std per channel or column, bytes first brought to [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, inputs: Tensor) -> Tensor:
        deviation = torch.tensor([value or 1.0 for value in self.std])  # a constant column stays 0
        slope = deviation.reciprocal() / (255.0 if inputs.dtype == torch.uint8 else 1.0)
        return torch.addcmul(-torch.tensor(self.mean) / deviation, inputs.float(), slope)


@dataclass(frozen=True, eq=False)
class ArrayData:
    """`inputs` are bytes [n, height, width, channels], floats [n, columns] or tokens [n, length].

    Batches of images come as float [batch, channels, height, width], channels last in memory, which is the
    fast layout for convolutions on a CPU; what has no scaling (tokens) comes as it is.
    """

    inputs: Tensor
    labels: Tensor
    scaling: Scaling | None = None
    augmentation: Augment | None = None

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise ShapeError(
                f"{len(self.inputs)} inputs but {len(self.labels)} labels: give one label per row."
            )

    @classmethod
    def from_arrays(
        cls, inputs: NDArray[Any], labels: NDArray[Any], scaling: Scaling | None = None
    ) -> "ArrayData":
        """From NumPy arrays as `load` gives them, without a copy; grey images get their channel.

        >>> data = ArrayData.from_arrays(np.zeros((4, 8, 8), np.uint8), np.arange(4), Scaling((0.5,), (0.5,)))
        >>> next(data.batches(2)).inputs.shape
        torch.Size([2, 1, 8, 8])
        """
        images = inputs[..., None] if inputs.ndim == 3 else inputs
        return cls(torch.from_numpy(images), torch.from_numpy(np.asarray(labels, dtype=np.int64)), scaling)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Batch:
        """One example as it is without augmentation: a torch `Dataset` for those who need one."""
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return Batch(self._prepared(self.inputs[index].unsqueeze(0))[0], self.labels[index])

    def batches(
        self, batch_size: int, generator: Generator | None = None, *, drop_last: bool = False
    ) -> Iterator[Batch]:
        """All examples once: shuffled and augmented with a generator, plain and in order without one."""
        count = len(self) - len(self) % batch_size if drop_last else len(self)
        order = self._order(generator)
        for start in range(0, count, batch_size):
            rows = order[start : min(start + batch_size, count)]
            raw = self.inputs[rows]
            if self.augmentation is not None and generator is not None:
                raw = self.augmentation(raw, generator)
            yield Batch(self._prepared(raw), self.labels[rows])

    def whole(self) -> Batch:
        """Everything in one batch, without augmentation."""
        return Batch(self._prepared(self.inputs), self.labels)

    def subset(self, rows: Tensor) -> "ArrayData":
        """The chosen rows."""
        return replace(self, inputs=self.inputs[rows], labels=self.labels[rows])

    def take(self, count: int | None, seed: int) -> "ArrayData":
        """`count` examples drawn by seed; all of them if there are no more, or if it is None."""
        if count is None or count >= len(self):
            return self
        return self.subset(self._order(torch.Generator().manual_seed(seed))[:count])

    def hold_out(self, seed: int, count: int | None = None) -> tuple["ArrayData", "ArrayData"]:
        """(what is left to train on, the part held out), by seed: 5,000, or a tenth of fewer than 50,000."""
        held = count if count is not None else (HELD_OUT if len(self) >= SMALL else len(self) // 10)
        if not 0 <= held < len(self):
            raise InputError(f"cannot hold out {held} of {len(self)} examples.")
        order = self._order(torch.Generator().manual_seed(seed))
        return self.subset(order[held:]), replace(self.subset(order[:held]), augmentation=None)

    def _order(self, generator: Generator | None) -> Tensor:
        if generator is None:
            return torch.arange(len(self))
        return torch.randperm(len(self), generator=generator)

    def _prepared(self, raw: Tensor) -> Tensor:
        scaled = raw if self.scaling is None else self.scaling(raw)
        return scaled.permute(0, 3, 1, 2) if scaled.ndim == 4 else scaled


def crop_and_flip(images: Tensor, generator: Generator, padding: int = PADDING) -> Tensor:
    """Random crops of the zero-padded images, half of them mirrored (appendix B.3, CIFAR-10).

    uint8 images [batch, height, width, channels] in and out, a whole batch at once.
    """
    batch, height, width, _ = images.shape
    padded = F.pad(images, (0, 0, padding, padding, padding, padding))
    top, left = torch.randint(0, 2 * padding + 1, (2, batch, 1), generator=generator)
    mirrored = torch.rand(batch, 1, generator=generator) < 0.5
    columns = torch.arange(width).expand(batch, width)
    rows = top + torch.arange(height)  # [batch, height]
    columns = left + torch.where(mirrored, columns.flip(1), columns)  # [batch, width]
    return padded[torch.arange(batch)[:, None, None], rows[:, :, None], columns[:, None, :]]


AUGMENTATIONS: Mapping[str, Augment] = MappingProxyType({"crop-and-flip": crop_and_flip})


def find_augmentation(name: str | None) -> Augment | None:
    """An augmentation by name; none for None."""
    if name is None:
        return None
    if name not in AUGMENTATIONS:
        raise UnknownNameError("augmentation", name, AUGMENTATIONS)
    return AUGMENTATIONS[name]
