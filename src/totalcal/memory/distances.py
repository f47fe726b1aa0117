"""How far features lie from what was seen: the distances of the domain memory and of post-hoc OOD scores.

All of them grow as an input becomes less familiar. Rows are [n, d]; precisions are inverse covariances.
Tail probabilities say how many held-out rows are as far away, and what that promises.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

RIDGE = 1e-3
_ROUNDS, _FEWEST_ROUNDS, _ROWS_MET = 25, 3, 100_000
_LARGEST_BLOCK = 2**20  # numbers at once: what fits the caches
_LEAST_VARIANCE = 1e-12  # of features that never change: their inverse still is a number in float32
_LEAST_SHARE = 1e-5
_CLOSEST = 1e3  # in units of rounding, squared
_AT_THE_CENTRE = 1e-3  # in units of the spread, squared: rows that repeat may be their own class mean
_NO_LENGTH, _NO_SLOPE = 1e-9, 1e-6  # relative to the largest: rounding of float64


class Moments(NamedTuple):
    """Class means [classes, d], the mean of all rows [d], within-class and total covariance [d, d]."""

    class_means: Tensor
    mean: Tensor
    within: Tensor
    total: Tensor


def moments(counts: Tensor, sums: Tensor, scatter: Tensor) -> Moments:
    """First and second moments from sums: n_c, Σ_{y=c} φ and Σ φφᵀ.

    W = (Σ φφᵀ − Σ_c n_c μ_c μ_cᵀ) / n and T = Σ φφᵀ / n − μμᵀ. A class without rows has mean NaN, which no
    distance may take for near: leave it out.

    >>> rows = torch.tensor([[0.0], [2.0], [5.0], [5.0]])
    >>> found = moments(torch.tensor([2, 2]), torch.tensor([[2.0], [10.0]]), rows.T @ rows)
    >>> found.class_means.flatten(), found.within
    (tensor([1., 5.]), tensor([[0.5000]]))
    """
    counted = counts.to(sums.dtype)
    rows = counted.sum()
    class_means = sums / counted[:, None]
    mean = sums.sum(0) / rows
    seen = counts > 0
    between = (sums[seen] / counted[seen, None]).T @ sums[seen]  # Σ_c n_c μ_c μ_cᵀ
    return Moments(class_means, mean, (scatter - between) / rows, scatter / rows - torch.outer(mean, mean))


def precision(covariance: Tensor, level: Tensor | None = None) -> Tensor:
    """(Σ + 10⁻³ level · I)⁻¹, invertible however few rows Σ is of; the level is tr(Σ)/d if not given.

    >>> precision(torch.eye(2), level=torch.tensor(1000.0)).diagonal()
    tensor([0.5000, 0.5000])
    """
    level = mean_variance(covariance) if level is None else level
    eye = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    symmetric = (covariance + covariance.T) / 2 + RIDGE * level * eye
    inverse: Tensor = torch.cholesky_inverse(torch.linalg.cholesky(symmetric))
    return inverse


def mean_variance(covariance: Tensor) -> Tensor:
    """tr(Σ)/d, and a little for features that never change."""
    return covariance.diagonal().mean().clamp_min(_LEAST_VARIANCE)


def within_level(found: Moments) -> Tensor:
    """tr(W)/d, and at least 10⁻⁵ of the features' mean square: a class may be one row that repeats.

    >>> rows = torch.tensor([[1.0], [1.0], [3.0], [3.0]])
    >>> within_level(moments(torch.tensor([2, 2]), torch.tensor([[2.0], [6.0]]), rows.T @ rows))
    tensor(5.0000e-05)
    """
    mean_square = (found.total.diagonal() + found.mean.square()).mean()
    return torch.maximum(mean_variance(found.within), _LEAST_SHARE * mean_square)


class Distances(NamedTuple):
    """Squared distances to several centres that share what is quadratic in x: one product serves all.

    ‖F (x − o) − a_c‖² − 2 b_cᵀ (x − o) + k_c

    a_c carries what F can of the linear part, and mostly all of it: then there are no slopes b_c, [0, d]. So
    a small distance is no difference of large numbers, and few of its digits are rounding.
    """

    origin: Tensor
    factor: Tensor
    images: Tensor
    slopes: Tensor
    offsets: Tensor

    def nearest(self, rows: Tensor) -> Tensor:
        """The least of the distances, [n]; nearer to a_c than 0.03 is as near as can be."""
        centred = rows - self.origin
        image = centred @ self.factor.T
        constants = torch.linalg.vecdot(self.images, self.images) + self.offsets
        to_each = torch.addmm(constants, image, self.images.T, alpha=-2)
        if len(self.slopes):
            to_each = torch.addmm(to_each, centred, self.slopes.T, alpha=-2)
        closest = to_each.argmin(-1)
        distances = (image - self.images[closest]).square().sum(-1).clamp_min(_AT_THE_CENTRE)
        if len(self.slopes):
            distances = distances - 2 * torch.linalg.vecdot(centred, self.slopes[closest])
        return distances + self.offsets[closest]

    def seen_from(self, origin: Tensor) -> "Distances":
        """The same distances, with another origin: the nearer to the rows, the less is lost by rounding.

        >>> distance = mahalanobis(torch.tensor([[1.0, 0.0]]), torch.zeros(2), torch.eye(2))
        >>> distance.seen_from(torch.tensor([9.0, 9.0])).nearest(torch.tensor([[0.0, 2.0]]))
        tensor([5.])
        """
        moved = origin - self.origin
        offsets = self.offsets - 2 * self.slopes @ moved if len(self.slopes) else self.offsets
        return self._replace(origin=origin, images=self.images - self.factor @ moved, offsets=offsets)


def mahalanobis(means: Tensor, origin: Tensor, within: Tensor) -> Distances:
    """(x − μ_c)ᵀ W⁻¹ (x − μ_c) for each mean; `within` is W⁻¹. `origin` is any point near the rows.

    >>> distance = mahalanobis(torch.tensor([[1.0, 0.0]]), torch.zeros(2), torch.eye(2))
    >>> distance.nearest(torch.tensor([[0.0, 2.0]]))
    tensor([5.])
    """
    return by_factor(means, origin, _factor(within, len(within)))


def by_factor(means: Tensor, origin: Tensor, factor: Tensor) -> Distances:
    """‖F (x − μ_c)‖²: the Mahalanobis distance, with F such that FᵀF = W⁻¹."""
    return Distances(origin, factor, (means - origin) @ factor.T, means[:0], means.new_zeros(len(means)))


def relative_mahalanobis(means: Tensor, mean: Tensor, within: Tensor, total: Tensor) -> Distances:
    """(x − μ_c)ᵀ W⁻¹ (x − μ_c) − (x − μ)ᵀ T⁻¹ (x − μ) (Ren et al. 2021); both precisions are given.

    What every class shares, and what therefore says nothing about the task, drops out: T − W has rank K − 1
    for K means, and with one ridge in both W⁻¹ − T⁻¹ has it too. So the distance is one in K − 1 dimensions,
    those of Fisher's linear discriminant.
    """
    return relative_by_factor(means, mean, within, _factor(within - total, max(len(means) - 1, 1)))


def relative_by_factor(means: Tensor, mean: Tensor, within: Tensor, factor: Tensor) -> Distances:
    """The relative distance, with F such that FᵀF = W⁻¹ − T⁻¹; its rows are orthogonal.

    The slopes W⁻¹ (μ_c − μ) become Fᵀ a_c + b_c; where the means are those that T is of, b_c is 0.
    """
    slopes = (means - mean) @ within
    lengths = factor.square().sum(-1)
    inverse = torch.where(lengths > _NO_LENGTH * lengths.max(), 1 / lengths, 0)
    images = slopes @ factor.T * inverse
    left = slopes - images @ factor
    offsets = (slopes * (means - mean)).sum(-1) - images.square().sum(-1)
    is_nothing_left = left.abs().max() <= _NO_SLOPE * slopes.abs().max()
    return Distances(mean, factor, images, left[:0] if is_nothing_left else left, offsets)


def _factor(matrix: Tensor, rank: int) -> Tensor:
    """F [rank, d] with FᵀF = the matrix, which is positive semidefinite and of that rank."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)  # ascending
    factor: Tensor = (vectors * values.clamp_min(0).sqrt())[:, -rank:].T.contiguous()
    return factor


def nearest_prototype(rows: Tensor, prototypes: Tensor) -> Tensor:
    """min_r ‖x/‖x‖ − m_r‖, [n]: how far the direction of x lies from any that was seen.

    At least 0.01 in float32, and less in float64: nearer to a prototype no digit of it would be more than
    rounding.

    >>> nearest_prototype(torch.tensor([[3.0, 4.0]]), torch.eye(2))
    tensor([0.6325])
    """
    lengths = rows.norm(dim=-1)
    scale = 2 / lengths.clamp_min(torch.finfo(rows.dtype).tiny)
    squares = torch.linalg.vecdot(prototypes, prototypes)
    nearest = torch.addcmul(squares, rows @ prototypes.T, scale[:, None], value=-1).amin(-1)
    distances: Tensor = ((lengths > 0) + nearest).clamp_min(_CLOSEST * torch.finfo(rows.dtype).eps).sqrt()
    return distances


def spherical_prototypes(rows: Tensor, count: int) -> Tensor:
    """Centroids [count, d] of unit rows: Lloyd's k-means that starts from the first `count` of them.

    Deterministic: the same rows in the same order give the same centroids. A centroid without rows stays. Up
    to 4,000 rows there are 25 rounds, beyond so many that each centroid meets 100,000 rows in all: the more
    rows, the less a round more changes, and time grows with the number of centroids, not with its square.
    """
    units = F.normalize(rows, dim=-1)
    centroids = units[:count].clone()
    nearest = torch.empty(len(units), dtype=torch.long, device=units.device)
    block_rows = max(1, _LARGEST_BLOCK // max(count, 1))
    products = units.new_empty(min(block_rows, len(units)), len(centroids))
    for _ in range(min(_ROUNDS, max(_FEWEST_ROUNDS, _ROWS_MET // max(len(rows), 1)))):
        squares = centroids.square().sum(-1)
        for block, places in zip(units.split(block_rows), nearest.split(block_rows), strict=True):
            product = torch.mm(block, centroids.T, out=products[: len(block)])
            torch.argmin(torch.sub(squares, product, alpha=2, out=product), -1, out=places)
        sums = torch.zeros_like(centroids).index_add_(0, nearest, units)
        sizes = torch.bincount(nearest, minlength=len(centroids)).to(sums)[:, None]
        updated = torch.where(sizes > 0, sums / sizes.clamp_min(1), centroids)
        if torch.equal(updated, centroids):
            break
        centroids = updated
    return centroids


def pooled_map(maps: Tensor) -> Tensor:
    """Mean and standard deviation of each channel over the positions: [n, C, …] to [n, 2C].

    >>> pooled_map(torch.tensor([[[1.0, 3.0]]]))
    tensor([[2., 1.]])
    """
    positions = maps.flatten(2)
    mean = positions.mean(-1)
    deviation = (positions - mean.unsqueeze(-1)).square_().mean(-1).sqrt()
    return torch.cat([mean, deviation], dim=-1)


def mean_by_row(values: Tensor, rows: Tensor, count: int) -> Tensor:
    """The mean over each row's tokens, [count, …]; `rows` [tokens] says whose each of `values` is.

    >>> mean_by_row(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1]), 2)
    tensor([2., 5.])
    """
    sums = values.new_zeros(count, *values.shape[1:]).index_add_(0, rows, values)
    sizes = values.new_zeros(count).index_add_(0, rows, values.new_ones(rows.shape[0])).clamp_min(1)
    return sums / sizes.view(-1, *[1] * (values.dim() - 1))


TAIL_FROM = 0.95
_NO_EXCESS = 1e-6  # of the scores' own size: below it the tail is ties, give or take rounding
_OF_A_SCORE, _OF_THE_SPREAD = 1e-3, 3e-6  # what rounding may change


def conformal_p_value(scores: Tensor, calibration: Tensor) -> Tensor:
    """(1 + #{i: s_i ≥ s}) / (n + 1), in float64; `calibration` is sorted along its last axis.

    If a new score is exchangeable with the n calibration scores, P(p ≤ a) ≤ a for every a, at any n and with
    any ties: the rank of one of n + 1 exchangeable numbers is uniform, and ties only raise p. Nothing can be
    promised below 1/(n + 1), the smallest value there is.

    >>> conformal_p_value(torch.tensor([0.0, 2.0, 9.0]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([1.0000, 0.7500, 0.2500], dtype=torch.float64)
    """
    above = calibration.shape[-1] - torch.searchsorted(calibration, scores.contiguous(), side="left")
    return (1 + above).double() / (calibration.shape[-1] + 1)


def spread_of(reference: Tensor) -> Tensor:
    """q₉₅ − q₅ along the last axis, which is sorted, [..., 1].

    >>> spread_of(torch.arange(101.0))
    tensor([90.])
    """
    last = reference.shape[-1] - 1
    high, low = int(TAIL_FROM * last), int((1 - TAIL_FROM) * last)
    return reference[..., high : high + 1] - reference[..., low : low + 1]


def less_rounding(scores: Tensor, spread: Tensor) -> Tensor:
    """s − 10⁻³ |s| − 3·10⁻⁶ (q₉₅ − q₅): scores, less all that rounding may have added to them.

    The last digits of a net's numbers change with the rows beside a row. Among rows that repeat, as those of
    tables do, such a digit would set a score above all that equal it. Lowered, it counts them, and a few more
    than it should: p only rises, so that its promise holds. In float32, distances of a net differ by up to
    10⁻⁴ of their size between a row alone and in a batch; those that cross zero, by 10⁻⁶ of their spread.

    >>> calibration = torch.tensor([1.0, 2.0, 2.0, 2.0])
    >>> conformal_p_value(less_rounding(torch.tensor([2.00001]), spread_of(calibration)), calibration)
    tensor([0.8000], dtype=torch.float64)
    """
    lowered = torch.sub(scores, scores.abs(), alpha=_OF_A_SCORE)
    return torch.sub(lowered, spread, alpha=_OF_THE_SPREAD)


class Tails(NamedTuple):
    """Tail probabilities of several statistics: sorted reference scores [J, n], and how each goes on beyond.

    Up to the 95th percentile q of the reference it is the conformal count; beyond, p(q) · exp(−(s − q) / b)
    with b the mean excess over q, so that p goes on falling where no reference score lies.

    Attributes:
        reference: The scores of held-out rows, sorted, [J, n].
        spread: Of them, [J, 1].
        start: q, or ∞ where the scores beyond it tie: there the counts go on.
        log_p_at_zero: Where the line log p(s) of the tail would meet s = 0.
        rate: 1 / b.
    """

    reference: Tensor
    spread: Tensor
    start: Tensor
    log_p_at_zero: Tensor
    rate: Tensor

    @classmethod
    def fitted(cls, scores: Tensor) -> "Tails":
        """From scores [n, J] of held-out rows."""
        reference = scores.double().T.contiguous().sort(-1).values
        index = int(TAIL_FROM * (len(scores) - 1))
        quantile, beyond = reference[:, index : index + 1], reference[:, index + 1 :]
        excess = (beyond - quantile).sum(-1, keepdim=True) / max(beyond.shape[1], 1)
        size = torch.maximum(quantile.abs(), reference[:, -1:] - reference[:, :1])
        is_tied = excess <= _NO_EXCESS * size
        rate = torch.where(is_tied, 0, 1 / excess)
        log_p_at_zero = conformal_p_value(quantile, reference).log() + rate * quantile
        start = quantile.masked_fill(is_tied, torch.inf)
        return cls(reference, spread_of(reference), start, log_p_at_zero, rate)

    def log_p(self, scores: Tensor) -> Tensor:
        """log p_j of scores [n, J]."""
        columns = scores.double().T.contiguous()
        counted = conformal_p_value(columns, self.reference).log()
        tail = torch.addcmul(self.log_p_at_zero, columns, self.rate, value=-1)
        return torch.where(columns > self.start, tail, counted).T


def fisher(log_p_values: Tensor) -> Tensor:
    """T = −Σ_j log p_j over the last axis (Fisher's statistic, up to the factor 2).

    >>> fisher(torch.tensor([[0.0, 0.0]]))
    tensor([0.])
    """
    return -log_p_values.sum(-1) + 0.0  # not −0


def grouped_fisher(log_p_values: Tensor, sizes: Sequence[int]) -> Tensor:
    """Fisher's statistic of each group of columns, [n, groups]; the groups stand side by side.

    >>> grouped_fisher(torch.tensor([[-1.0, -2.0, -4.0]]), [2, 1])
    tensor([[3., 4.]])
    """
    return -torch.stack([group.sum(-1) for group in log_p_values.split(list(sizes), -1)], -1) + 0.0
