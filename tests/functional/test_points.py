"""Points in the place of draws: what they integrate exactly, and how near they come where they do not."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from totalcal.functional.moments import gaussian_points, pairs_for

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
