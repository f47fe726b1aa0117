"""How far features lie from what was seen: the distances of the domain memory and of post-hoc OOD scores.

All of them grow with strangeness. Rows are [n, d]; precisions are inverse covariances.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

RIDGE = 1e-3
_LEAST_VARIANCE = 1e-12  # of features that never change: their inverse still is a number in float32


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


class Distances(NamedTuple):
    """Squared distances to several centres that share what is quadratic in x: one product serves all.

    ‖F (x − o)‖² − 2 b_cᵀ (x − o) + k_c
    """

    origin: Tensor
    factor: Tensor
    slopes: Tensor
    offsets: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        """[n, centres]."""
        centred = rows - self.origin
        shared = (centred @ self.factor.T).square().sum(-1, keepdim=True)
        return torch.addmm(self.offsets, centred, self.slopes.T, alpha=-2) + shared


def mahalanobis(means: Tensor, origin: Tensor, within: Tensor) -> Distances:
    """(x − μ_c)ᵀ W⁻¹ (x − μ_c) for each mean; `within` is W⁻¹. `origin` is any point near the rows.

    >>> distance = mahalanobis(torch.tensor([[1.0, 0.0]]), torch.zeros(2), torch.eye(2))
    >>> distance(torch.tensor([[0.0, 2.0]]))
    tensor([[5.]])
    """
    centred = means - origin
    slopes = centred @ within
    return Distances(origin, _factor(within, len(within)), slopes, (slopes * centred).sum(-1))


def relative_mahalanobis(means: Tensor, mean: Tensor, within: Tensor, total: Tensor) -> Distances:
    """(x − μ_c)ᵀ W⁻¹ (x − μ_c) − (x − μ)ᵀ T⁻¹ (x − μ) (Ren et al. 2021); both precisions are given.

    What every class shares, and what therefore says nothing about the task, drops out: T − W has rank K − 1
    for K means, and with one ridge in both W⁻¹ − T⁻¹ has it too. So the distance is one in K − 1 dimensions,
    those of Fisher's linear discriminant.
    """
    own = mahalanobis(means, mean, within)
    return own._replace(factor=_factor(within - total, max(len(means) - 1, 1)))


def _factor(matrix: Tensor, rank: int) -> Tensor:
    """F [rank, d] with FᵀF = the matrix, which is positive semidefinite and of that rank."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)  # ascending
    factor: Tensor = (vectors * values.clamp_min(0).sqrt())[:, -rank:].T.contiguous()
    return factor


def nearest_prototype(rows: Tensor, prototypes: Tensor) -> Tensor:
    """min_r ‖x/‖x‖ − m_r‖, [n]: how far the direction of x lies from any that was seen.

    >>> nearest_prototype(torch.tensor([[3.0, 0.0]]), torch.eye(2))
    tensor([0.])
    """
    lengths = rows.norm(dim=-1)
    scale = 2 / lengths.clamp_min(torch.finfo(rows.dtype).tiny)
    squares = torch.linalg.vecdot(prototypes, prototypes)
    nearest = torch.addcmul(squares, rows @ prototypes.T, scale[:, None], value=-1).amin(-1)
    distances: Tensor = ((lengths > 0) + nearest).clamp_min(0).sqrt()
    return distances


def spherical_prototypes(rows: Tensor, count: int, iterations: int = 25) -> Tensor:
    """Centroids [count, d] of unit rows: Lloyd's k-means that starts from the first `count` of them.

    Deterministic: the same rows in the same order give the same centroids. A centroid without rows stays.
    """
    units = F.normalize(rows, dim=-1)
    centroids = units[:count].clone()
    for _ in range(iterations):
        nearest = (centroids.square().sum(-1) - 2 * units @ centroids.T).argmin(-1)
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
    deviation = (positions - mean.unsqueeze(-1)).square().mean(-1).sqrt()
    return torch.cat([mean, deviation], dim=-1)


def mean_by_row(values: Tensor, rows: Tensor, count: int) -> Tensor:
    """The mean over each row's tokens, [count, …]; `rows` [tokens] says whose each of `values` is.

    >>> mean_by_row(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1]), 2)
    tensor([2., 5.])
    """
    sums = values.new_zeros(count, *values.shape[1:]).index_add_(0, rows, values)
    sizes = torch.bincount(rows, minlength=count).clamp_min(1).to(values)
    return sums / sizes.view(-1, *[1] * (values.dim() - 1))
