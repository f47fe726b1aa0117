"""Augmentation of a whole batch at once: uint8 images [batch, height, width, channels] in and out."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from totalcal.errors import UnknownNameError

Augmentation = Callable[[Tensor, Generator], Tensor]
PADDING = 4


def crop_and_flip(images: Tensor, generator: Generator, padding: int = PADDING) -> Tensor:
    """Random crops of the zero-padded images, half of them mirrored (appendix B.3, CIFAR-10)."""
    batch, height, width, _ = images.shape
    padded = F.pad(images, (0, 0, padding, padding, padding, padding))
    top, left = torch.randint(0, 2 * padding + 1, (2, batch, 1), generator=generator)
    mirrored = torch.rand(batch, 1, generator=generator) < 0.5
    columns = torch.arange(width).expand(batch, width)
    rows = top + torch.arange(height)  # [batch, height]
    columns = left + torch.where(mirrored, columns.flip(1), columns)  # [batch, width]
    return padded[torch.arange(batch)[:, None, None], rows[:, :, None], columns[:, None, :]]


AUGMENTATIONS: Mapping[str, Augmentation] = MappingProxyType({"crop-and-flip": crop_and_flip})


def find_augmentation(name: str | None) -> Augmentation | None:
    """An augmentation by name; none for None."""
    if name is None:
        return None
    if name not in AUGMENTATIONS:
        raise UnknownNameError("augmentation", name, AUGMENTATIONS)
    return AUGMENTATIONS[name]
