"""What frost is made of: drawn textures with the statistics of photographs, or the photographs themselves."""

from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from totalcal.corruptions.blocks import stable_seed
from totalcal.errors import InputError
from totalcal.reading import read_picture

_PERCENTS: Final = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_WHITE: Final = 0.3  # share of white noise in the variance of a drawn texture
_DRAWN_FOR: Final = 32  # the side of image the sizes below are made for
_SHRINK: Final = 5  # the photographs are used at a fifth of their size
_PHOTOGRAPHS: Final = 5  # the benchmark ships six and never draws the last


class _Statistics(NamedTuple):
    """Of a photograph at a fifth of its size; red and blue as slope · green + offset + N(0, sd²)."""

    times: int
    height: int
    width: int
    green: tuple[int, ...]  # at _PERCENTS
    red: tuple[float, float, float]
    blue: tuple[float, float, float]


_STATISTICS: Final = (
    _Statistics(
        1, 120, 180, (116, 123, 128, 137, 148, 160, 171, 177, 189), (1.34, -122.4, 15.3), (0.87, 36.2, 5.5)
    ),
    _Statistics(
        2, 63, 112, (141, 165, 176, 193, 209, 221, 230, 235, 245), (0.96, 3.0, 2.0), (1.02, 5.8, 2.3)
    ),
    _Statistics(
        1, 70, 105, (82, 106, 118, 136, 153, 170, 186, 199, 240), (1.00, -14.8, 2.0), (1.04, 6.9, 3.5)
    ),
    _Statistics(1, 99, 132, (46, 60, 70, 91, 119, 151, 182, 203, 238), (1.03, -14.2, 1.5), (0.96, 16.0, 1.7)),
)


@lru_cache(maxsize=1)
def drawn(side: int) -> tuple[Tensor, ...]:
    """Five textures, [height, width, 3] bytes, for images of this side: always the same, like photographs.

    They share the photographs' colours and how fast they vary, not the feathers of real frost.
    """
    scale = max(1.0, side / _DRAWN_FOR)
    return tuple(
        texture
        for number, statistics in enumerate(_STATISTICS)
        for texture in [_draw(statistics, scale, stable_seed("frost", number))] * statistics.times
    )


def _draw(statistics: _Statistics, scale: float, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    height, width = ceil(statistics.height * scale), ceil(statistics.width * scale)
    field = _pink_field(height, width, generator)
    field = (1 - _WHITE) ** 0.5 * field + _WHITE**0.5 * torch.randn(height, width, generator=generator)
    green = _to_percentiles(field, statistics.green)
    channels = [
        _related(green, statistics.red, generator),
        green,
        _related(green, statistics.blue, generator),
    ]
    return torch.stack(channels, -1).clamp(0, 255).round().to(torch.uint8)


def _pink_field(height: int, width: int, generator: torch.Generator) -> Tensor:
    """Noise of power 1/f², standardised; cut from twice the size, so that its borders do not match."""
    noise = torch.randn(2 * height, 2 * width, generator=generator)
    down, across = torch.fft.fftfreq(2 * height)[:, None], torch.fft.rfftfreq(2 * width)
    frequency = torch.hypot(down.expand(-1, len(across)), across.expand(len(down), -1))
    frequency[0, 0] = torch.inf
    field: Tensor = torch.fft.irfft2(torch.fft.rfft2(noise) / frequency, s=noise.shape)[:height, :width]
    return (field - field.mean()) / field.std()


def _to_percentiles(field: Tensor, values: tuple[int, ...]) -> Tensor:
    """Ranks to values; the ends of the table are drawn out as straight lines."""
    ranks = field.flatten().argsort().argsort().double().add(0.5).mul(100 / field.numel())
    low = values[0] - (values[1] - values[0]) / 4
    high = values[-1] + (values[-1] - values[-2]) / 4
    levels = np.interp(ranks.numpy(), (0, *_PERCENTS, 100), (low, *values, high))
    return torch.from_numpy(levels).view_as(field)


def _related(green: Tensor, relation: tuple[float, float, float], generator: torch.Generator) -> Tensor:
    slope, offset, sd = relation
    return slope * green + offset + sd * torch.randn(green.shape, generator=generator)


def photographed(folder: str | Path) -> tuple[Tensor, ...]:
    """The benchmark's own files, frost1 … frost5 of `folder`, every fifth pixel.

    The benchmark shrinks them five times by bilinear sampling without smoothing: that falls on whole pixels.
    """
    files = sorted(Path(folder).glob("frost*"))[:_PHOTOGRAPHS]
    if not files:
        raise InputError(
            f"no frost textures in {folder}: expected files frost1.png … frost6.jpg."
            " Without frost_dir, textures are drawn."
        )
    pictures = (np.asarray(read_picture(file)) for file in files)
    first = _SHRINK // 2
    return tuple(torch.from_numpy(picture[first::_SHRINK, first::_SHRINK].copy()) for picture in pictures)
