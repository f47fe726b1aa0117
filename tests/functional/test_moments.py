"""Moments of functions of Gaussians, against quadrature by scipy and against draws.

Points in the place of draws: what they integrate exactly, and how near they come where they do not.
"""

import math
from functools import partial

import pytest
import torch
from scipy import integrate, special
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from totalcal.functional import moments
from totalcal.functional.moments import Moments, gaussian_points, pairs_for
from totalcal.functional.moments import covariance_of_linear as covariance

GRID = [(m, v) for m in (-6.0, -1.0, 0.0, 0.3, 2.0, 8.0) for v in (1e-6, 0.04, 1.0, 9.0)]
DRAWS = 200_000


def by_quadrature(function, mean: float, variance: float) -> tuple[float, float]:
    scale = math.sqrt(variance)

    def expected(value) -> float:
        def integrand(e: float) -> float:
            return value(mean + scale * e) * math.exp(-e * e / 2) / math.sqrt(2 * math.pi)

        kink = [-mean / scale] if abs(mean / scale) < 12 else None
        return integrate.quad(integrand, -12, 12, points=kink, epsabs=1e-13, limit=200)[0]

    centre = function(mean)
    first = expected(lambda x: function(x) - centre)
    return centre + first, expected(lambda x: (function(x) - centre) ** 2) - first**2


FUNCTIONS = {
    "relu": (moments.relu, lambda x: max(x, 0.0), 1e-7),
    "gelu": (moments.gelu, lambda x: x * special.ndtr(x), 2e-3),  # quadrature, worst at a deviation of 3
    "tanh": (moments.tanh, math.tanh, 2e-3),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations_agree_with_quadrature_by_scipy(name) -> None:
    rule, function, tolerance = FUNCTIONS[name]
    mean, variance = (torch.tensor(column, dtype=torch.float64) for column in zip(*GRID, strict=True))
    found = rule(Moments(mean, variance))
    truth = torch.tensor([by_quadrature(function, m, v) for m, v in GRID], dtype=torch.float64)
    assert_close(found.mean, truth[:, 0], rtol=tolerance, atol=2e-6)
    assert_close(found.variance, truth[:, 1], rtol=tolerance, atol=2e-6 * tolerance**0.5)


def test_quadrature_is_exact_to_many_digits_where_the_deviation_is_moderate() -> None:
    found = moments.tanh(Moments(torch.tensor(0.5).double(), torch.tensor(0.25).double()))
    truth = torch.tensor(by_quadrature(math.tanh, 0.5, 0.25), dtype=torch.float64)
    assert_close(torch.stack(found), truth, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_relu_far_from_its_kink_changes_nothing_or_leaves_nothing(dtype) -> None:
    mean, variance = torch.tensor([500.0, -500.0], dtype=dtype), torch.full((2,), 0.01, dtype=dtype)
    found = moments.relu(Moments(mean, variance))
    assert_close(found.mean, torch.tensor([500.0, 0.0], dtype=dtype))
    assert_close(found.variance, torch.tensor([0.01, 0.0], dtype=dtype))


@pytest.mark.parametrize("size", [1, 2, 10, 16])
def test_a_root_of_plain_products_is_that_of_lapack(size) -> None:
    factor = torch.randn(5, size, size + 2, dtype=torch.float64)
    matrix = factor @ factor.mT
    assert_close(moments.cholesky(matrix), torch.linalg.cholesky(matrix), rtol=1e-9, atol=1e-9)


def test_the_larger_of_two_agrees_with_draws() -> None:
    torch.manual_seed(0)
    first = Moments(torch.randn(40), torch.rand(40) * 2)
    second = Moments(torch.randn(40), torch.rand(40) * 2)
    drawn = torch.maximum(draw(first), draw(second))
    assert_moments(moments.maximum(first, second), drawn)


@pytest.mark.parametrize(("entries", "tolerance"), [(2, 0.01), (4, 0.04), (9, 0.08)])
def test_max_pooling_agrees_with_draws_within_the_error_of_clark(entries, tolerance) -> None:
    torch.manual_seed(0)
    windows = Moments(torch.randn(10, entries), 0.2 + torch.rand(10, entries))
    drawn = draw(windows, 100_000).amax(-1)
    found = moments.max_pooling(windows)
    assert_close(found.mean, drawn.mean(0), rtol=0, atol=tolerance)
    assert_close(found.variance, drawn.var(0), rtol=5 * tolerance, atol=0)


def test_averages_sums_scales_and_dropout_agree_with_draws() -> None:
    torch.manual_seed(0)
    windows = Moments(torch.randn(6, 4), torch.rand(6, 4))
    drawn = draw(windows)
    assert_moments(moments.average(windows), drawn.mean(-1))
    assert_moments(moments.total(windows, windows), drawn + draw(windows))
    assert_moments(moments.affine(windows, -2.0, 3.0), 3 - 2 * drawn)
    assert_moments(moments.dropout(windows, 0.3), F.dropout(drawn, 0.3))


def test_a_linear_layer_with_gaussian_weights_is_exact_and_its_outputs_move_together() -> None:
    torch.manual_seed(0)
    inputs, weight = Moments(torch.randn(5), torch.rand(5)), Moments(torch.randn(3, 5), torch.rand(3, 5))
    bias = torch.randn(3)
    drawn = torch.einsum("si,soi->so", draw(inputs), draw(weight)) + bias
    assert_moments(moments.linear(inputs, weight, bias), drawn, tolerance=0.02)
    together = covariance(inputs, weight)
    assert_close(together, torch.cov(drawn.T), rtol=0.02, atol=0.05)
    assert_close(together.diagonal(), moments.linear(inputs, weight, bias).variance)


def test_what_is_known_has_no_variance_of_its_own() -> None:
    torch.manual_seed(0)
    known, weight = torch.randn(7, 5), Moments(torch.randn(3, 5), torch.rand(3, 5))
    as_moments = Moments(known, torch.zeros_like(known))
    for rule in (lambda x: torch.stack(moments.linear(x, weight, None)), partial(covariance, weight=weight)):
        assert_close(rule(known), rule(as_moments))
    inputs = Moments(known, torch.rand(7, 5))
    assert_close(
        covariance(inputs, weight.mean),
        torch.einsum("nj,kj,lj->nkl", inputs.variance, weight.mean, weight.mean),
    )


@pytest.mark.parametrize("rule", [moments.relu, moments.gelu, moments.tanh, moments.max_pooling])
def test_moments_have_gradients_also_where_there_is_no_variance(rule) -> None:
    inputs = Moments(torch.randn(3, 4).requires_grad_(), torch.zeros(3, 4).requires_grad_())
    sum(part.sum() for part in rule(inputs)).backward()
    assert all(part.grad is not None and part.grad.isfinite().all() for part in inputs)


def draw(given: Moments, draws: int = DRAWS) -> Tensor:
    return given.mean + given.variance.sqrt() * torch.randn(draws, *given.mean.shape)


def assert_moments(found: Moments, drawn: Tensor, tolerance: float = 0.01) -> None:
    assert_close(found.mean, drawn.mean(0), rtol=0, atol=tolerance * float(drawn.std(0).max()))
    assert_close(found.variance, drawn.var(0), rtol=2 * tolerance, atol=1e-4)


DOUBLE = torch.zeros((), dtype=torch.float64)


@pytest.mark.parametrize(("dimensions", "pairs"), [(2, 8), (10, 10), (16, 16)])
def test_polynomials_of_degree_three_are_integrated_exactly(dimensions, pairs) -> None:
    points = gaussian_points(dimensions, pairs, DOUBLE)
    products = torch.einsum("si,sj,sk->sijk", points, points, points)
    assert_close(points.mean(0), torch.zeros(dimensions).double(), rtol=0, atol=1e-12)
    assert_close(points.T @ points / len(points), torch.eye(dimensions).double(), rtol=0, atol=1e-12)
    assert_close(products.mean(0), torch.zeros_like(products[0]), rtol=0, atol=1e-12)


def test_in_many_dimensions_each_column_still_has_variance_one() -> None:
    points = gaussian_points(200, pairs_for(200), DOUBLE)
    assert_close(points.square().mean(0), torch.ones(200).double())
    assert_close(points.mean(0), torch.zeros(200).double())


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_mean_of_a_softmax_is_nearer_than_by_a_hundred_draws(classes) -> None:
    torch.manual_seed(0)
    logits, scale = 2 * torch.randn(100, 1, classes).double(), 0.5 + torch.rand(100, 1, classes).double()

    def expected(noise: Tensor) -> Tensor:
        return (logits + scale * noise).softmax(-1).mean(1)

    truth, drawn = expected(torch.randn(10_000, classes)), expected(torch.randn(100, 100, classes))
    found = expected(gaussian_points(classes, pairs_for(classes), DOUBLE))
    assert (found - truth).abs().mean() < (drawn - truth).abs().mean()


def test_points_are_the_same_on_every_call_and_differ_by_seed() -> None:
    assert_close(gaussian_points(5, 8, DOUBLE), gaussian_points(5, 8, DOUBLE), rtol=0, atol=0)
    assert not torch.equal(gaussian_points(5, 8, DOUBLE), gaussian_points(5, 8, DOUBLE, seed=1))
