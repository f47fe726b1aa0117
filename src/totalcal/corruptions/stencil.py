"""Correlation with a small symmetric kernel, exact enough for float32 to tell a level from just below it."""

from typing import Final, NamedTuple

import torch
from torch import Tensor

Offset = tuple[int, int]

_SLACK: Final = 1e-7  # a change by a whole level may come out just below itself


class Ring(NamedTuple):
    """Neighbours of one weight, (rows down, columns right)."""

    weight: float
    offsets: list[Offset]


def rings(kernel: Tensor, lightest: float = 1e-9) -> list[Ring]:
    """The weights of a kernel around its centre, each with the places it stands at.

    >>> rings(torch.tensor([[0.0, 0.25, 0.0], [0.0, 0.5, 0.0], [0.0, 0.25, 0.0]]))
    [Ring(weight=0.25, offsets=[(-1, 0), (1, 0)])]
    """
    middle = len(kernel) // 2
    places: dict[float, list[Offset]] = {}
    for row, weights in enumerate(kernel.tolist()):
        for column, weight in enumerate(weights):
            if weight > lightest and (row, column) != (middle, middle):
                places.setdefault(round(weight, 12), []).append((row - middle, column - middle))
    return [Ring(*ring) for ring in places.items()]


def correlate(images: Tensor, around: list[Ring]) -> Tensor:
    """⌊Σ w x⌋ as x + ⌊Σ w Σ (neighbour − x)⌋ for weights of sum one, borders mirrored: c b | a b c d | c b

    The differences are whole numbers, so nothing is lost before they are weighed: flat regions stay flat,
    and a weight of 10⁻⁶ tips what would else be a whole level.
    """
    side = images.shape[1]
    margin = max(abs(step) for _, offsets in around for offset in offsets for step in offset)
    padded = _mirror_edges(images, margin).flatten(2)  # [batch, side + 2 margin, (side + 2 margin) · 3]
    centre = images.flatten(2).to(torch.int16)
    change = torch.full(centre.shape, _SLACK, device=images.device)
    for weight, offsets in around:
        corners = ((margin + down, 3 * (margin + right)) for down, right in offsets)
        windows = [padded[:, row : row + side, column : column + 3 * side] for row, column in corners]
        difference = torch.mul(centre, -len(windows))
        for window in windows:
            difference.add_(window)
        change.add_(difference.float(), alpha=weight)
    return centre.add_(change.floor_().to(torch.int16)).to(torch.uint8).view_as(images)


def _mirror_edges(images: Tensor, margin: int) -> Tensor:
    """In int16, with `margin` more pixels on every side."""
    batch, side, _, channels = images.shape
    wide = side + 2 * margin
    padded = images.new_empty(batch, wide, wide, channels, dtype=torch.int16)
    rows = padded[:, margin:-margin]
    rows[:, :, margin:-margin] = images
    for line in (rows.transpose(1, 2), padded):
        for step in range(1, margin + 1):
            line[:, margin - step] = line[:, margin + step]
            line[:, -margin - 1 + step] = line[:, -margin - 1 - step]
    return padded
