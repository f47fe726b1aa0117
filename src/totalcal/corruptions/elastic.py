"""Elastic: the image drawn on rubber, pulled by three pins, then kneaded."""

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from totalcal.corruptions import linear
from totalcal.corruptions.draws import Draws
from totalcal.corruptions.pixels import from_planes, to_planes


def elastic_transform(
    images: Tensor, draws: Draws, length: float, smoothness: float, jitter: float
) -> Tensor:
    """An affine jitter, then a smooth random displacement; all parameters in sides of the image."""
    side = images.shape[1]
    moves = draws.uniform(3, 2, low=-jitter * side, high=jitter * side)
    planes = _pull(to_planes(images), moves)
    if length:
        fields = draws.uniform(2, side, side, low=-1, high=1)
        fields = linear.smooth(fields, smoothness * side, linear.reflect, truncate=3.0)
        planes = _knead(planes, fields, length)
    return from_planes(planes)


def _pull(planes: Tensor, moves: Tensor) -> Tensor:
    """The affine map that moves three pins of the middle by `moves` [batch, 3, (x, y)]; borders mirrored."""
    side = planes.shape[-1]
    middle, arm = side // 2, side // 3
    pins = middle + arm * moves.new_tensor([[1, 1], [1, -1], [-1, -1]])
    old, new = (2 * places.double() / (side - 1) - 1 for places in (pins.expand_as(moves), pins + moves))
    back = torch.linalg.solve(torch.cat([new, torch.ones_like(new[..., :1])], -1), old)  # [batch, 3, 2]
    per_x, per_y, shift = back.float().split(1, 1)  # [batch, 1, (x, y)]
    steps = torch.linspace(-1, 1, side, device=planes.device).unsqueeze(1)
    grid = (steps * per_y).unsqueeze(2) + (steps * per_x + shift).unsqueeze(1)  # [batch, side, side, (x, y)]
    return grid_sample(planes, grid, padding_mode="reflection", align_corners=True)


def _knead(planes: Tensor, fields: Tensor, length: float) -> Tensor:
    """Pixel (row, column) from (row + dy, column + dx), `fields` (dx, dy) / `length`; borders reflected."""
    one = torch.eye(2, 3, device=planes.device).unsqueeze(0)
    places = affine_grid(one, [1, 1, *planes.shape[2:]], align_corners=False)  # from −1 to 1: two a side
    grid = torch.add(places, fields.permute(0, 2, 3, 1), alpha=2 * length)
    return grid_sample(planes, grid, padding_mode="reflection", align_corners=False)
