"""Means and variances of Gaussian inputs through the functions of a net, one formula per function.

Entries are taken as independent: a variance has the shape of its mean. A function whose output is no
Gaussian hands on its first two moments, as if it were (assumed density filtering; Frey and Hinton 1999).
Where a function has no closed form, a few fixed points stand for a Gaussian (`gaussian_points`).
"""

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

_VARIANCE_GUARD = 1e-12  # a unit without variance: its deviation divides, and has a gradient
_LEAST_PIVOT = 1e-37  # ONNX keeps this bound in float32, and a smaller one would be 0 there
_NODES, _REACH = 32, 5.25


class Moments(NamedTuple):
    """Mean and variance, entry by entry."""

    mean: Tensor
    variance: Tensor


Value = Tensor | Moments
"""What passes through a net: known, or known by its moments."""

Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def linear(inputs: Value, weight: Value, bias: Tensor | None, product: Product = F.linear) -> Moments:
    """Weights and inputs that are independent of each other: exact, whatever their distributions.

    E = m μᵀ + b,   Var = (m² + v) (σ²)ᵀ + v (μ²)ᵀ

    A plain tensor is known: its variance is 0. `product` may be a convolution, whose outputs at different
    positions share weights: each variance is exact, but the outputs are not independent of each other.

    >>> one = Moments(torch.ones(1, 2), torch.ones(1, 2))
    >>> linear(one, one, None).variance  # two products of N(1, 1): 2 (1 + 1 + 1)
    tensor([[6.]])
    """
    mean = product(_mean(inputs), _mean(weight), bias)
    return Moments(mean, variance_of_linear(inputs, weight, mean, product))


def variance_of_linear(inputs: Value, weight: Value, mean: Tensor, product: Product = F.linear) -> Tensor:
    """The second half of `linear`, for a mean that is known."""
    spreads = []
    if isinstance(weight, Moments):
        spreads.append(product(_second_moment(inputs), weight.variance, None))
    if isinstance(inputs, Moments):
        spreads.append(product(inputs.variance, _mean(weight).square(), None))
    return sum(spreads[1:], spreads[0]) if spreads else torch.zeros_like(mean)


def covariance_of_linear(inputs: Value, weight: Value) -> Tensor:
    """The outputs' covariance, [..., outputs, outputs]: they share the inputs.

    Cov = Σ_j μ_kj μ_lj v_j + [k = l] Σ_j σ²_kj (m_j² + v_j)
    """
    slope = _mean(weight)
    outputs, covariance = len(slope), slope.new_zeros(())
    if isinstance(inputs, Moments):
        products = (slope.unsqueeze(0) * slope.unsqueeze(1)).flatten(0, 1)  # [outputs², inputs]
        covariance = F.linear(inputs.variance, products).unflatten(-1, (outputs, outputs))
    if isinstance(weight, Moments):
        covariance = covariance + F.linear(_second_moment(inputs), weight.variance).diag_embed()
    return covariance


def cholesky(matrix: Tensor) -> Tensor:
    """L, a lower triangle with L Lᵀ = the matrix, column by column and of plain products alone.

    >>> cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    size, rest, columns = matrix.shape[-1], matrix, []
    places = torch.arange(size, device=matrix.device)
    for k in range(size):
        pivot = rest[..., k, k].clamp_min(_LEAST_PIVOT)
        columns.append((places >= k) * rest[..., k] / pivot.sqrt().unsqueeze(-1))
        rest = rest - columns[-1].unsqueeze(-1) * columns[-1].unsqueeze(-2)
    return torch.stack(columns, -1)


def maximum(first: Moments, second: Moments) -> Moments:
    """The larger of two independent Gaussians (Clark 1961), with the variance in a form that does not cancel.

    With θ² = v₁ + v₂ and α = (m₁ − m₂)/θ:   E = m₁ Φ(α) + m₂ (1 − Φ(α)) + θ φ(α),
    Var = v₁ Φ(α) + v₂ (1 − Φ(α)) + (E − m₂) (m₁ − E)
    """
    theta = (first.variance + second.variance + _VARIANCE_GUARD).sqrt()
    alpha = (first.mean - second.mean) / theta
    above, density = _normal_cdf(alpha), _normal_density(alpha)
    mean = first.mean * above + second.mean * (1 - above) + theta * density
    spread = first.variance * above + second.variance * (1 - above)
    return Moments(mean, (spread + (mean - second.mean) * (first.mean - mean)).clamp_min(0))


def relu(inputs: Moments) -> Moments:
    """max(x, 0), closed form: `maximum` with 0, written out as half of it is nothing.

    With α = m/√v:   E = m Φ(α) + √v φ(α),   Var = v Φ(α) + E (m − E)

    >>> relu(Moments(torch.zeros(1), torch.ones(1)))  # E = 1/√(2π), Var = ½ − 1/(2π)
    Moments(mean=tensor([0.3989]), variance=tensor([0.3408]))
    """
    scale = (inputs.variance + _VARIANCE_GUARD).sqrt_()
    alpha = inputs.mean / scale
    above = _normal_cdf(alpha)
    mean = (inputs.mean * above).addcmul_(scale, _normal_density(alpha)).clamp_min_(0)
    variance = (inputs.variance * above).addcmul_(mean, inputs.mean - mean).clamp_min_(0)
    return Moments(mean, variance)


def gelu(inputs: Moments) -> Moments:
    """x Φ(x). The mean is closed by Stein's lemma; the second moment has no elementary form: quadrature.

    E = m Φ(t) + v/√(1 + v) φ(t),   t = m/√(1 + v)
    """
    root = (1 + inputs.variance).sqrt()
    t = inputs.mean / root
    mean = inputs.mean * _normal_cdf(t) + inputs.variance / root * _normal_density(t)
    return Moments(mean, pointwise(F.gelu, inputs).variance)


def tanh(inputs: Moments) -> Moments:
    """tanh(x): neither moment has a closed form, so quadrature."""
    return pointwise(torch.tanh, inputs)


def pointwise(function: Callable[[Tensor], Tensor], inputs: Moments, nodes: int = _NODES) -> Moments:
    """Any smooth function of one entry, by the trapezoidal rule: Σ w_i f(m + √v x_i), x_i evenly in ± 5.25.

    Its error falls exponentially with the number of nodes. Gauss–Hermite spends outer nodes where a function
    such as tanh is flat: with 32 nodes and a deviation of 3 its error is forty times as large. Differences to
    f(m) are summed, so that a small variance is not lost in a large square.
    """
    centre, scale = function(inputs.mean), (inputs.variance + _VARIANCE_GUARD).sqrt()
    first, second = torch.zeros_like(centre), torch.zeros_like(centre)
    for node, weight in _trapezoid(nodes):
        difference = function(inputs.mean + node * scale) - centre
        first = first + weight * difference
        second = second + weight * difference.square()
    return Moments(centre + first, (second - first.square()).clamp_min(0))


def max_pooling(windows: Moments) -> Moments:
    """The largest of the last axis, by pairs (Clark 1961): each round takes its results for Gaussian.

    Exact for two entries; for more a mean is off by hundredths of a deviation, a variance by up to a third.
    """
    mean, variance = windows
    while mean.shape[-1] > 1:
        odd = Moments(mean[..., :1], variance[..., :1]) if mean.shape[-1] % 2 else None
        start = 0 if odd is None else 1
        half = start + mean.shape[-1] // 2
        winners = maximum(
            Moments(mean[..., start:half], variance[..., start:half]),
            Moments(mean[..., half:], variance[..., half:]),
        )
        mean, variance = winners if odd is None else _joined(odd, winners)
    return Moments(mean.squeeze(-1), variance.squeeze(-1))


def average(windows: Moments) -> Moments:
    """The mean of the last axis: E = mean of m, Var = (mean of v)/n. Exact for independent entries."""
    return Moments(windows.mean.mean(-1), windows.variance.mean(-1) / windows.mean.shape[-1])


def total(first: Moments, second: Moments) -> Moments:
    """x + y: means and variances add up. Exact for independent terms."""
    return Moments(first.mean + second.mean, first.variance + second.variance)


def affine(inputs: Moments, scale: Tensor | float, shift: Tensor | float = 0.0) -> Moments:
    """a x + b, as batch normalisation in evaluation: E = a m + b, Var = a² v. Exact."""
    return Moments(scale * inputs.mean + shift, scale * scale * inputs.variance)


def dropout(inputs: Moments, rate: float) -> Moments:
    """x · Bernoulli(1 − p)/(1 − p): E = m, Var = (v + p m²)/(1 − p). Exact."""
    return Moments(inputs.mean, (inputs.variance + rate * inputs.mean.square()) / (1 - rate))


def _mean(value: Value) -> Tensor:
    return value.mean if isinstance(value, Moments) else value


def _second_moment(value: Value) -> Tensor:
    if isinstance(value, Moments):
        return value.mean.square() + value.variance
    return value.square()


def _joined(first: Moments, second: Moments) -> Moments:
    return Moments(torch.cat([first.mean, second.mean], -1), torch.cat([first.variance, second.variance], -1))


def _normal_cdf(x: Tensor) -> Tensor:
    if torch.compiler.is_exporting() and x.dtype is torch.float64:  # onnxruntime's erf is one of float32
        return _normal_cdf(x.float()).to(x.dtype)
    return (x * -math.sqrt(0.5)).erfc_().mul_(0.5)  # in place: fresh memory takes longer than the formula


def _normal_density(x: Tensor) -> Tensor:
    return (x * x).mul_(-0.5).sub_(0.5 * math.log(2 * math.pi)).exp_()


@lru_cache
def _trapezoid(nodes: int) -> list[tuple[float, float]]:
    places = torch.linspace(-_REACH, _REACH, nodes, dtype=torch.float64)
    return list(zip(places.tolist(), (-0.5 * places.square()).softmax(0).tolist(), strict=True))


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
