"""Elastic: the image drawn on rubber, pulled by three pins, then kneaded."""

from functools import lru_cache
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from totalcal.corruptions import linear
from totalcal.corruptions.draws import Draws
from totalcal.corruptions.pixels import from_planes, to_planes

_LARGEST_WORD: Final = 2**15


def elastic_transform(
    images: Tensor, draws: Draws, length: float, smoothness: float, jitter: float
) -> Tensor:
    """An affine jitter, then a smooth random displacement; all parameters in sides of the image.

    Displacements are uniform in steps of 2⁻¹⁵ of the largest.
    """
    side = images.shape[1]
    moves = draws.uniform(3, 2, low=-jitter * side, high=jitter * side)
    planes = _pull(to_planes(images), moves)
    if length:
        words = draws.words(torch.int16, 2, side, side).float()
        fields = linear.smooth(words, smoothness * side, linear.reflect, truncate=3.0)
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
    edges = 1 - 1 / side  # −1 and 1 are the outer edges of the image: two a side
    here = (edges * _homogeneous(side)[:2]).to(fields).view(2, side, side)
    return _sample(planes, torch.add(here, fields, alpha=2 * length), corners_on_corners=False)


def _sample(planes: Tensor, places: Tensor, corners_on_corners: bool) -> Tensor:
    """Bilinear, at `places` [batch, (x, y), side, side]."""
    grid = places.permute(0, 2, 3, 1)
    return grid_sample(planes, grid, padding_mode="reflection", align_corners=corners_on_corners)
