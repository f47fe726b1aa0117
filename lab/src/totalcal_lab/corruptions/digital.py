"""Noise, independent per value and channel, and what cameras and codecs do to colours and pixels."""

from functools import lru_cache
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from totalcal_lab.corruptions import kernels
from totalcal_lab.corruptions.kernels import SLACK, BlockDraws, from_planes, to_planes, truncate

_WORDS: Final = 2**16  # steps in which a distribution is resolved: one random word of 16 bits per value


def gaussian_noise(images: Tensor, draws: BlockDraws, sd: float) -> Tensor:
    """x + n, n ~ N(0, sd²). As x is a whole level, ⌊x + n⌋ = x + ⌊n⌋: the noise is whole levels, too."""
    levels = _look_up(_normal_levels(sd, images.device), _quantiles(images, draws))
    return levels.add_(images).clamp_(0, 255).to(torch.uint8)


def speckle_noise(images: Tensor, draws: BlockDraws, sd: float) -> Tensor:
    """x + x n, n ~ N(0, sd²)."""
    factors = _look_up(_normal_factors(sd, images.device), _quantiles(images, draws))
    return truncate(factors.mul_(images))


def impulse_noise(images: Tensor, draws: BlockDraws, amount: float) -> Tensor:
    """A value turns white with probability amount/2, black with amount/2."""
    words = draws.words(torch.int32, *images.shape[1:])
    black, white = (round(share * 2**32) - 2**31 for share in (amount / 2, amount))
    return images.masked_fill(words < white, 255).masked_fill_(words < black, 0)


def shot_noise(images: Tensor, draws: BlockDraws, photons: float) -> Tensor:
    """Poisson(x · photons) / photons, looked up: there are only 256 rates."""
    place = images.int().mul_(_WORDS).add_(_quantiles(images, draws))
    return _look_up(_photon_levels(photons, images.device), place)


def _quantiles(images: Tensor, draws: BlockDraws) -> Tensor:
    """For every value, the number of one of 2¹⁶ equally likely parts of a distribution."""
    return draws.words(torch.uint16, *images.shape[1:]).int()


def _look_up(table: Tensor, place: Tensor) -> Tensor:
    return table.index_select(0, place.flatten()).view_as(place)


@lru_cache(maxsize=1)
def _normal_levels(sd: float, device: torch.device) -> Tensor:
    return (255 * sd * _standard_normal()).floor_().to(device, torch.int16)


@lru_cache(maxsize=1)
def _normal_factors(sd: float, device: torch.device) -> Tensor:
    return (1 + sd * _standard_normal()).to(device, torch.float32)


def _standard_normal() -> Tensor:
    """The normal at the middle of each part, so within ±4.33: the 1.5 · 10⁻⁵ that lie beyond are drawn in."""
    middles = (torch.arange(_WORDS, dtype=torch.float64) + 0.5) / _WORDS
    normal: Tensor = torch.special.ndtri(middles)
    return normal


@lru_cache(maxsize=1)  # 16 MB
def _photon_levels(photons: float, device: torch.device) -> Tensor:
    """The level at every one of 2¹⁶ quantiles of every one of 256 rates."""
    counts = torch.arange(photons + 12 * photons**0.5 + 12, dtype=torch.float64)
    rates = torch.arange(256, dtype=torch.float64).unsqueeze(1) / 255 * photons
    mass = torch.exp(torch.xlogy(counts, rates) - rates - torch.lgamma(counts + 1))  # [rates, counts]
    ends = (mass.cumsum(1) * _WORDS).round_().long()
    ends[:, -1] = _WORDS
    quantiles = ends.diff(dim=1, prepend=torch.zeros(256, 1, dtype=torch.long))
    levels = ((counts / photons).clamp(max=1) * 255).to(torch.uint8)
    return levels.repeat(256).repeat_interleave(quantiles.flatten()).to(device)


def contrast(images: Tensor, draws: BlockDraws, factor: float) -> Tensor:
    """(x − μ) · factor + μ, μ the mean of each channel of the image."""
    side = images.shape[1]
    rows = images.flatten(2).float()  # [batch, side, side · 3]
    of_each_channel = torch.eye(3, device=rows.device).repeat(side, side).div_(side)
    mean = rows.mean(1) @ of_each_channel  # [batch, side · 3]
    nearer = rows.lerp_(mean.add_(SLACK / (1 - factor)).unsqueeze(1), 1 - factor)
    return nearer.to(torch.int16).to(torch.uint8).view_as(images)  # in between levels: nothing to clip


def brightness(images: Tensor, draws: BlockDraws, added: float) -> Tensor:
    """V of HSV to V + added."""
    value, saturation, distance = _to_hsv(images)
    return _from_hsv((value + added).clamp_(max=1), saturation, distance)


def saturate(images: Tensor, draws: BlockDraws, factor: float, offset: float) -> Tensor:
    """S of HSV to factor · S + offset. A grey pixel counts as red; without offset it stays as it is."""
    value, saturation, distance = _to_hsv(images)
    return _from_hsv(value, saturation.mul_(factor).add_(offset).clamp_(0, 1), distance)


def _to_hsv(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """V, S, and in place of the hue how far each channel lies below V: 1 for the lowest, 0 for the highest.

    In float64: many results are whole levels, and the original cuts them off where they come out just below.
    """
    planes = images.permute(0, 3, 1, 2).contiguous().double().div_(255)
    value = planes.amax(1, keepdim=True)
    chroma = value - planes.amin(1, keepdim=True)
    red = planes.new_tensor([0, 1, 1]).view(3, 1, 1)
    distance = torch.where(chroma > 0, (value - planes).div_(chroma), red)
    return value, torch.where(value > 0, chroma / value, 0), distance


def _from_hsv(value: Tensor, saturation: Tensor, distance: Tensor) -> Tensor:
    """V (1 − distance · S), cut off to bytes."""
    planes = (1 - distance * saturation).mul_(value)
    return planes.mul_(255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def pixelate(images: Tensor, draws: BlockDraws, scale: float) -> Tensor:
    """Box resize to ⌊scale · side⌋ and back, rounded to bytes after each axis."""
    first, last = (index.to(images.device) for index in _boxes(images.shape[1], scale))
    for axis in (2, 1):
        images = _rounded_mean(images.index_select(axis, first), images.index_select(axis, last))
    return images


def _rounded_mean(one: Tensor, other: Tensor) -> Tensor:
    """⌊(a + b + 1) / 2⌋ without leaving bytes."""
    return (one | other) - ((one ^ other) >> 1)


@lru_cache(maxsize=8)
def _boxes(side: int, scale: float) -> tuple[Tensor, Tensor]:
    """The first and the last pixel of the box that each pixel is replaced by.

    A box is one pixel or two, as no scale is below ½; back at full size, a pixel takes the box around it.
    """
    small = int(side * scale)
    centres = torch.arange(small, dtype=torch.float64).add(0.5).mul(side / small)
    half = side / small / 2
    first = (centres - half + 0.5).floor().long()
    last = (centres + half - 0.5).floor().long()
    box = torch.arange(side, dtype=torch.float64).add(0.5).mul(small / side).floor().long()
    return first[box], last[box]


def jpeg_compression(images: Tensor, draws: BlockDraws, quality: float) -> Tensor:
    """Through libjpeg and back: 4:2:0 chroma, standard tables."""
    import cv2

    settings = [cv2.IMWRITE_JPEG_QUALITY, int(quality)]
    blue_first = images.flip(-1).cpu().numpy()
    decoded: list[Any] = [
        cv2.imdecode(cv2.imencode(".jpg", image, settings)[1], cv2.IMREAD_COLOR) for image in blue_first
    ]
    return torch.from_numpy(np.stack(decoded)).to(images.device).flip(-1)


_LARGEST_WORD: Final = 2**15


def elastic_transform(
    images: Tensor, draws: BlockDraws, length: float, smoothness: float, jitter: float
) -> Tensor:
    """An affine jitter, then a smooth random displacement; all parameters in sides of the image.

    Displacements are uniform in steps of 2⁻¹⁵ of the largest.
    """
    side = images.shape[1]
    moves = draws.uniform(3, 2, low=-jitter * side, high=jitter * side)
    planes = _pull(to_planes(images), moves)
    if length:
        words = draws.words(torch.int16, 2, side, side).float()
        fields = kernels.smooth(words, smoothness * side, kernels.reflect, truncate=3.0)
        planes = _knead(planes, fields, length / _LARGEST_WORD)
    return from_planes(planes)


def _pull(planes: Tensor, moves: Tensor) -> Tensor:
    """The affine map that moves three pins of the middle by `moves` [batch, 3, (x, y)]; borders mirrored."""
    side = planes.shape[-1]
    middle, arm = side // 2, side // 3
    pins = middle + arm * moves.new_tensor([[1, 1], [1, -1], [-1, -1]])
    below, corner, left = (2 * (pins + moves).double() / (side - 1) - 1).unbind(1)  # [batch, (x, y)]
    back = _inverse(corner - left, below - corner) * (4 * arm / (side - 1))
    shift = 2 * pins[1].double() / (side - 1) - 1 - (corner.unsqueeze(1) @ back).squeeze(1)
    maps = torch.cat([back, shift.unsqueeze(1)], 1).transpose(1, 2).reshape(-1, 3).float()  # [batch · 2, 3]
    places = (maps @ _homogeneous(side).to(maps)).view(-1, 2, side, side)
    return _sample(planes, places, corners_on_corners=True)


def _inverse(first: Tensor, second: Tensor) -> Tensor:
    """Of the 2 × 2 matrices with these rows, [batch, 2, 2]: far cheaper than a batch of solvers."""
    (a, b), (c, d) = first.unbind(1), second.unbind(1)
    inverse = torch.stack([d, -b, -c, a], 1).view(-1, 2, 2)
    return inverse / (a * d - b * c).view(-1, 1, 1)


@lru_cache(maxsize=8)
def _homogeneous(side: int) -> Tensor:
    """(x, y, 1) of every pixel, [3, side · side]; −1 and 1 are the centres of the first and the last."""
    steps = torch.linspace(-1, 1, side)
    down, across = torch.meshgrid(steps, steps, indexing="ij")
    return torch.stack([across, down, torch.ones_like(down)]).flatten(1)


def _knead(planes: Tensor, fields: Tensor, length: float) -> Tensor:
    """Pixel (row, column) from (row + dy, column + dx), `fields` (dx, dy) / `length`; borders reflected."""
    side = planes.shape[-1]
    edges = 1 - 1 / side  # −1 and 1 are the outer edges of the image: two per side
    here = (edges * _homogeneous(side)[:2]).to(fields).view(2, side, side)
    return _sample(planes, torch.add(here, fields, alpha=2 * length), corners_on_corners=False)


def _sample(planes: Tensor, places: Tensor, corners_on_corners: bool) -> Tensor:
    """Bilinear, at `places` [batch, (x, y), side, side]."""
    grid = places.permute(0, 2, 3, 1)
    return grid_sample(planes, grid, padding_mode="reflection", align_corners=corners_on_corners)
