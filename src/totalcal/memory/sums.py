"""The sums that a memory is written with, and the metric that is made of them.

A row of a joint feature z adds to three sums: n_c, S_c = Σ z and G = Σ z zᵀ. They depend on neither order nor
batches, and those of two sets add up to those of their union.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

LEAST_RIDGE = 1e-3  # of the mean variance within classes
_MOST_SHRINKAGE = 0.99
_FLOOR = 1e-4  # of the mean variance within classes: of columns that hardly change
_LEAST_SHARE = 1e-6  # of the mean square: a class may be one row that repeats
_LEAST_VARIANCE = 1e-12
_NO_DIRECTION = 1e-9  # of the largest: rounding
_BLOCK = 512  # rows at once


@dataclass
class Sums:
    """n_c [classes], S_c [classes, D] and G [D, D] of labelled rows, in float64.

    >>> sums = Sums.empty(num_classes=2, width=1)
    >>> sums.add(torch.tensor([[0.0], [2.0], [5.0]]), torch.tensor([0, 0, 1]))
    >>> sums.counts, sums.totals.flatten(), sums.squares.round()
    (tensor([2, 1]), tensor([2., 5.], dtype=torch.float64), tensor([[29.]], dtype=torch.float64))
    """

    counts: Tensor
    totals: Tensor
    squares: Tensor

    @classmethod
    def empty(cls, num_classes: int, width: int) -> Self:
        totals = torch.zeros(num_classes, width, dtype=torch.float64)
        return cls(torch.zeros(num_classes, dtype=torch.int64), totals, totals.new_zeros(width, width))

    def add(self, rows: Tensor, labels: Tensor) -> None:
        """(n, S, G) ← (n, S, G) + Σ (1, z, z zᵀ).

        The product is one of rows less the mean of their block, in their own precision: what float32 rounds
        is a share of their variance, however far from zero they lie.
        """
        self.counts += torch.bincount(labels, minlength=len(self.counts)).to(self.counts)
        exact = rows.to(self.totals)
        self.totals.index_add_(0, labels.to(self.totals.device), exact)
        mean = exact.mean(0)
        centred = (exact - mean).to(rows)
        self.squares += (centred.T @ centred).to(self.squares)
        self.squares.addr_(mean, mean, alpha=len(rows))


class Metric(NamedTuple):
    """What a row is measured in: u = F (z − m), in which W is 1 and T is diagonal.

    F W Fᵀ = 1 and F T Fᵀ = 1 + diag(s², 0 … 0): the first coordinates, at most K − 1, are those in which
    classes differ (Fisher's linear discriminants), and in the others all class means are 0. So a distance
    under T needs no second matrix.

    Attributes:
        mean: m, of all rows, [D].
        factor: F, [D, D].
        spread: s², [k], from large to small.
        centres: The class means in the first k coordinates, [classes, k]; NaN for a class without rows.
        ridge: ρ, in units of the mean variance within classes.
    """

    mean: Tensor
    factor: Tensor
    spread: Tensor
    centres: Tensor
    ridge: float

    def coordinates(self, rows: Tensor) -> Tensor:
        """u of rows z [n, D]."""
        return (rows - self.mean.to(rows)) @ self.factor.to(rows).T


def metric(sums: Sums, blocks: Tensor, sample: Tensor, labels: Tensor) -> Metric:
    """The metric of a domain, from its sums.

    Each column is divided by its deviation within classes. W and T have one ridge ρ I: with one each, the
    relative distance turns upside down. ρ = α / (1 − α) of the mean variance within classes, with Ledoit and
    Wolf's α (2004) of the residuals, and at least 10⁻³: few rows of many columns need much of it.

    Args:
        sums: Of all rows.
        blocks: For each column, by number, those that it shares a unit with, [D].
        sample: Some of the rows, which the fourth moments in α are taken of, [m, D].
        labels: Their classes, [m].
    """
    rows, seen = sums.counts.sum().double(), sums.counts > 0
    means = sums.totals / sums.counts[:, None]
    mean = sums.totals.sum(0) / rows
    shares = sums.counts[seen] / rows
    offsets = means[seen] - mean
    between = offsets.T @ (shares[:, None] * offsets)
    total = sums.squares / rows - torch.outer(mean, mean)
    within = total - between
    variance = _floored(within.diagonal(), total.diagonal() + mean.square(), blocks)
    scale = variance.rsqrt()
    within = within * scale * scale[:, None]
    parts = zip(sample.split(_BLOCK), labels.split(_BLOCK), strict=True)  # a copy in float64 would be large
    squares = [((part.to(means) - means[own]) * scale).square().sum(-1) for part, own in parts]
    shrinkage = min(_shrinkage(within, torch.cat(squares), float(rows)), _MOST_SHRINKAGE)
    ridge = max(shrinkage / (1 - shrinkage), LEAST_RIDGE)
    values, vectors = torch.linalg.eigh((within + within.T) / 2)
    whitening = (vectors * (values.clamp_min(0) + ridge).rsqrt()) @ vectors.T * scale  # W^(−1/2)
    images = offsets @ whitening.T * shares[:, None].sqrt()
    _, lengths, directions = torch.linalg.svd(images, full_matrices=False)
    spread = lengths.square()
    kept = min(len(shares) - 1, len(mean), int((spread > _NO_DIRECTION * spread[0]).sum()))
    basis = torch.linalg.qr(
        directions[:kept].T, mode="complete"
    ).Q  # the rest is any basis: this one is smooth
    basis[:, :kept] = directions[:kept].T
    factor = basis.T @ whitening
    centres = (means - mean) @ factor[:kept].T
    return Metric(mean, factor, spread[:kept], centres, ridge)


def _floored(variance: Tensor, squares: Tensor, blocks: Tensor) -> Tensor:
    """Variances within classes; a column that hardly changes has a little of its block's."""
    sizes = torch.bincount(blocks).to(variance)
    level = torch.zeros_like(sizes).index_add_(0, blocks, variance.clamp_min(0)) / sizes
    square = torch.zeros_like(sizes).index_add_(0, blocks, squares) / sizes
    floor = torch.maximum(_FLOOR * level, _LEAST_SHARE * square).clamp_min(_LEAST_VARIANCE)
    return torch.maximum(variance, floor[blocks])


def _shrinkage(covariance: Tensor, squares: Tensor, rows: float) -> float:
    """Ledoit and Wolf's α, in [0, 1]: how much of the covariance had better be a multiple of I.

    α = Σ_i ‖x_i x_iᵀ − Σ‖² / (n² ‖Σ − tr(Σ)/d · I‖²), the sum by the mean over the residuals whose ‖x_i‖²
    are given.
    """
    trace, norm = covariance.diagonal().sum(), covariance.square().sum()
    distance = norm - trace.square() / len(covariance)
    fourth = squares.square().mean()
    return float(((fourth - norm) / rows / distance.clamp_min(1e-300)).clamp(0, 1))
