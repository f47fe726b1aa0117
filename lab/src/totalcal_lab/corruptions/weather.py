"""Weather: snow, frost, fog, and spatter, drops of water or mud on the lens.

Frost is made of drawn textures with the statistics of photographs, or of the photographs themselves.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import threshold as threshold_below

from totalcal.errors import InputError, ShapeError
from totalcal.files import read_picture
from totalcal_lab.corruptions import kernels
from totalcal_lab.corruptions.blur import directional_blur
from totalcal_lab.corruptions.kernels import BlockDraws, from_planes, stable_seed, to_planes, truncate

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


def fog(images: Tensor, draws: BlockDraws, amount: float, decay: float) -> Tensor:
    """(x + amount · F) m / (m + amount), F a plasma map, m the brightest value of the image."""
    side = images.shape[1]
    planes = to_planes(images)
    start = planes.new_zeros(len(planes), 1, 1)
    cloud = plasma(start, power_of_two_above(side), decay, draws)[:, None, :side, :side]
    brightest = planes.amax((1, 2, 3), keepdim=True)
    return from_planes((planes + 255 * amount * cloud) * (brightest / (brightest + 255 * amount)))


def frost(
    images: Tensor,
    draws: BlockDraws,
    image_weight: float,
    frost_weight: float,
    photographs: Sequence[Tensor] | None = None,
) -> Tensor:
    """A weighted sum of the image and of a random piece of a random texture."""
    side = images.shape[1]
    table = photographs or drawn(side)
    pieces = _random_pieces(table, side, draws.uniform(3).cpu().double())
    return truncate(image_weight * images + frost_weight * pieces.to(images.device))


def _random_pieces(table: Sequence[Tensor], side: int, uniform: Tensor) -> Tensor:
    """[batch, side, side, 3]; the columns of `uniform` choose the texture, the row and the column."""
    sizes = torch.tensor([texture.shape[:2] for texture in table])
    if int(sizes.min()) <= side:
        raise ShapeError(
            f"a frost texture of {sizes.tolist()} (a fifth of its file) is no larger than the image, {side}."
        )
    starts = torch.tensor([0] + [texture.shape[0] * texture.shape[1] for texture in table]).cumsum(0)
    which = (uniform[:, 0] * len(table)).long()
    first = (uniform[:, 1:] * (sizes[which] - side)).long()  # [batch, 2], the far end never reached
    steps, width = torch.arange(side), sizes[which, 1].view(-1, 1, 1)
    down, across = first[:, 0, None] + steps, first[:, 1, None] + steps
    place = starts[which].view(-1, 1, 1) + down[:, :, None] * width + across[:, None, :]
    pixels = torch.cat([texture.reshape(-1, 3) for texture in table])
    return pixels.index_select(0, place.flatten()).view(-1, side, side, 3)


def snow(
    images: Tensor,
    draws: BlockDraws,
    mean: float,
    sd: float,
    zoom: float,
    threshold: float,
    radius: float,
    sigma: float,
    kept: float,
) -> Tensor:
    """Bleach the image, then add flakes that fall, and the same flakes upside down.

    Bit by bit as the original: the image in float32, cut off in float64. The flakes are whole levels.
    """
    side = images.shape[1]
    flakes = draws.normal(1, side, side, mean=mean, sd=sd).double()
    magnify = kernels.zoom(side, *kernels.zoom_geometry(side, zoom)).unsqueeze(0)
    flakes = threshold_below(kernels.apply(flakes, magnify, magnify), threshold, 0).clamp_(max=1)
    flakes = flakes.mul_(255).to(torch.uint8).view(-1, side, side, 1)
    fallen = directional_blur(flakes, draws.uniform(low=-135, high=-45).cpu(), radius, sigma)
    falling = fallen.view(-1, 1, side, side).to(torch.int16)
    bleached = _bleach(to_planes(images).div_(255), kept).double().mul_(255).to(torch.int16)
    snowy = bleached.add_(falling + falling.flip(2, 3)).clamp_(max=255).to(torch.uint8)
    return snowy.permute(0, 2, 3, 1).contiguous()


def _bleach(x: Tensor, kept: float) -> Tensor:
    """kept · x + (1 − kept) · max(x, 1.5 g + ½), g the luma."""
    red, green, blue = x.split(1, 1)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    return torch.maximum(x, luma.mul_(1.5).add_(0.5)).mul_(1 - kept).add_(x.mul_(kept))


_WATER: Final = (175, 238, 238)
_MUD: Final = (63, 42, 20)
_THIN_MUD: Final = 0.8
_FARTHEST: Final = 20  # pixels
_EMBOSS: Final = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])


def spatter(
    images: Tensor,
    draws: BlockDraws,
    mean: float,
    sd: float,
    sigma: float,
    threshold: float,
    strength: float,
    muddy: float,
) -> Tensor:
    """Smoothed noise above a threshold is liquid: water brightens the image, mud covers it."""
    side = images.shape[1]
    liquid = kernels.smooth(draws.normal(1, side, side, mean=mean, sd=sd), sigma)
    liquid = torch.where(liquid < threshold, 0, liquid)
    cover = _mud if muddy else _water
    return from_planes(cover(to_planes(images), liquid, threshold, strength))


def _mud(planes: Tensor, liquid: Tensor, threshold: float, sigma: float) -> Tensor:
    mask = kernels.smooth((liquid > threshold).float(), sigma)
    mask = torch.where(mask < _THIN_MUD, 0, mask)
    return torch.lerp(planes, _colour(_MUD, planes), mask)


def _water(planes: Tensor, liquid: Tensor, threshold: float, strength: float) -> Tensor:
    depth = (255 * liquid).to(torch.uint8).squeeze(1).cpu().numpy()  # [batch, side, side]
    shine = _shine(depth).to(planes) * liquid.new_tensor(depth)
    thickest = shine.amax((1, 2), keepdim=True).clamp(min=1)  # 0 where there is no liquid at all
    return planes + (strength * shine / thickest).unsqueeze(1) * _colour(_WATER, planes)


def _colour(levels: tuple[int, int, int], planes: Tensor) -> Tensor:
    return planes.new_tensor(levels).view(3, 1, 1)


def _shine(depth: NDArray[np.uint8]) -> Tensor:
    """Where drops catch the light: an embossed relief of the distance to the drops' edges."""
    import cv2

    return torch.from_numpy(np.stack([_relief(cv2, drops) for drops in depth]))


def _relief(cv2: ModuleType, drops: NDArray[np.uint8]) -> Any:
    edges = cv2.Canny(drops, 50, 150)
    distance = cv2.distanceTransform(255 - edges, cv2.DIST_L2, 5)
    near = cv2.blur(np.minimum(distance, _FARTHEST), (3, 3)).astype(np.uint8)
    relief = cv2.filter2D(cv2.equalizeHist(near), cv2.CV_8U, _EMBOSS)
    return cv2.blur(relief, (3, 3))


def plasma(corners: Tensor, side: int, decay: float, draws: BlockDraws) -> Tensor:
    """Maps in [0, 1], [batch, side, side], that start from zeros [batch, 1, 1]; `side` is a power of two.

    Each level doubles the grid: centres are the mean of their corners, midpoints of edges the mean of the
    two corners and two centres around them, both + a U(−a, a); a starts at 100 and is divided by `decay` at
    each level.
    """
    amplitude = 100.0
    while corners.shape[-1] < side:
        corners = _refine(corners, amplitude**2, draws)
        amplitude /= decay
    corners = corners - corners.amin((1, 2), keepdim=True)
    return corners / corners.amax((1, 2), keepdim=True)


def _refine(corners: Tensor, amplitude: float, draws: BlockDraws) -> Tensor:
    batch, size, _ = corners.shape
    noise = draws.uniform(3, size, size, low=-amplitude, high=amplitude).unbind(1)
    across, down = corners + corners.roll(-1, 2), corners + corners.roll(-1, 1)
    centres = (across + across.roll(-1, 1)) / 4 + noise[0]
    finer = corners.new_empty(batch, 2 * size, 2 * size)
    finer[:, 0::2, 0::2] = corners
    finer[:, 1::2, 1::2] = centres
    finer[:, 0::2, 1::2] = (across + centres + centres.roll(1, 1)) / 4 + noise[1]
    finer[:, 1::2, 0::2] = (down + centres + centres.roll(1, 2)) / 4 + noise[2]
    return finer


def power_of_two_above(side: int) -> int:
    """
    >>> power_of_two_above(28), power_of_two_above(32)
    (32, 32)
    """
    return 1 << (side - 1).bit_length()
