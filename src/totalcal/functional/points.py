"""A few fixed points that stand for a Gaussian, where a function of it has no closed form."""

from functools import lru_cache
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FEWEST_PAIRS, MOST_PAIRS = 8, 16


def pairs_for(dimensions: int) -> int:
    """How many pairs ± ε: as many as there are dimensions, between 8 and 16."""
    return min(max(dimensions, FEWEST_PAIRS), MOST_PAIRS)


def gaussian_points(dimensions: int, pairs: int, like: Tensor, seed: int = 0) -> Tensor:
    """ε_s for N(0, I): the same on every call, 2 · pairs × dimensions, ε_s and −ε_s half the points apart.

    Each column is a Latin hypercube: one point in each of 2 · pairs intervals of equal probability. With as
    many pairs as dimensions, the points are turned to the nearest set with Σ ε εᵀ / S = I: with its mean of 0
    and its symmetry that makes the expectation of every polynomial of degree 3 exact (a spherical cubature
    rule, as in Arasaratnam and Haykin 2009, in a rotation that suits the margins). With fewer pairs, only
    the variance of each column is 1.

    >>> points = gaussian_points(2, pairs=8, like=torch.zeros(()))
    >>> points.shape, (points.T @ points / 16).round(decimals=4)
    (torch.Size([16, 2]), tensor([[1., 0.], [0., 1.]]))
    """
    return torch.tensor(_design(dimensions, pairs, seed), dtype=like.dtype, device=like.device)


@lru_cache(maxsize=64)
def _design(dimensions: int, pairs: int, seed: int) -> NDArray[np.float64]:
    random = np.random.RandomState(seed)  # its numbers are the same in every version of numpy
    quantiles = np.array([NormalDist().inv_cdf(0.5 + (i + 0.5) / (2 * pairs)) for i in range(pairs)])
    columns = [random.permutation(quantiles) * random.choice([-1, 1], pairs) for _ in range(dimensions)]
    half = np.stack(columns, axis=1)
    if pairs >= dimensions:
        left, _, right = np.linalg.svd(half, full_matrices=False)
        half = np.sqrt(pairs) * left @ right
    else:
        half /= np.sqrt(np.square(half).mean(0))
    return np.concatenate([half, -half])
