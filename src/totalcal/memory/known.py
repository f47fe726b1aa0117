"""What rows are held against: prototypes and class means, and how far rows lie from them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from totalcal.memory.distances import mean_by_row, nearest, squares_of
from totalcal.memory.features import Features

_AT_THE_CENTRE = 1e-3  # in units of the spread, squared: rows that repeat may be their own class mean


class Known(nn.Module):
    """What rows are held against, made of what is kept: prototypes of each layer, of tokens, and centres.

    Args:
        prototypes: Of each layer.
        tokens: Of tokens; none without a sequence.
        centres: Class means in the coordinates of the metric.
        spread: s², of the first coordinates.
    """

    tokens: Tensor
    token_squares: Tensor
    centres: Tensor
    centre_squares: Tensor
    root: Tensor
    images: Tensor
    offsets: Tensor

    def __init__(self, prototypes: Sequence[Tensor], tokens: Tensor, centres: Tensor, spread: Tensor) -> None:
        super().__init__()
        first = centres[:, : len(spread)]
        root = (spread / (1 + spread)).sqrt()
        constants = {
            "tokens": tokens,
            "token_squares": squares_of(tokens),
            "centres": centres,
            "centre_squares": squares_of(centres),
            "root": root,
            "images": first / root,
            "offsets": (first.square() / spread).sum(-1) - squares_of(centres[:, len(spread) :]),
        }
        for place, each in enumerate(prototypes):
            constants |= {f"prototypes{place}": each, f"squares{place}": squares_of(each)}
        for name, tensor in constants.items():
            self.register_buffer(name, tensor, persistent=False)
        self.reaches_beyond = bool(centres[:, len(spread) :].any())

    def to_prototypes(self, layers: Sequence[Tensor]) -> list[Tensor]:
        """For each layer the distance to its nearest prototype."""
        buffers: Any = self._buffers
        return [
            nearest(rows, buffers[f"prototypes{place}"], buffers[f"squares{place}"])
            for place, rows in enumerate(layers)
        ]

    def to_tokens(self, features: Features, rows: int) -> Tensor:
        """The mean over each row's tokens of their distance to the nearest prototype."""
        assert features.rows is not None
        units = F.normalize(features.values.to(self.tokens), dim=-1)
        return mean_by_row(nearest(units, self.tokens, self.token_squares), features.rows, rows)

    def to_centres(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """a and r: ‖u − c‖² to the nearest centre, and the same less Σ y² / (1 + s²) − Σ rest².

        Those of training differ in the first coordinates alone. r is a square and a constant there: no
        difference of large numbers.
        """
        chosen = torch.addmm(self.centre_squares, u, self.centres.T, alpha=-2).argmin(-1)
        centres, first = self.centres[chosen], len(self.root)
        absolute = (u - centres).square().sum(-1).clamp_min(_AT_THE_CENTRE)
        relative = (self.root * u[:, :first] - self.images[chosen]).square().sum(-1) - self.offsets[chosen]
        if self.reaches_beyond:
            relative = relative - 2 * (u[:, first:] * centres[:, first:]).sum(-1)
        return absolute, relative
