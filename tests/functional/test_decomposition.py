"""The three terms against the law of total variance on simulated labels, and the paper's Proposition.

The joint against brute force.
"""

import math

import numpy as np
import pytest
import scipy
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from totalcal.functional.decomposition import (
    categorical_entropy,
    decompose,
    log_joint,
    softmax,
    sum_over_classes,
    variance_over_draws,
)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(2, 6))
def test_the_terms_add_up_to_the_variance_of_the_label(seed: int, draws: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    means = torch.rand(draws, 4, classes, generator=generator, dtype=torch.float64)
    means = means / means.sum(-1, keepdim=True)
    variances = means * (1 - means) * torch.rand(draws, 4, 1, generator=generator, dtype=torch.float64)
    terms, p = decompose(means, variances), means.mean(0)
    of_the_mean = means.var(0) / draws if draws > 1 else torch.zeros_like(p)  # what p itself is uncertain by
    torch.testing.assert_close(sum(terms), p * (1 - p) + of_the_mean)
    assert all((term >= 0).all() for term in terms)


def test_each_term_is_what_simulation_says_it_is() -> None:
    torch.manual_seed(0)
    alphas = torch.tensor([[2.0, 3.0, 5.0], [6.0, 1.0, 1.0]], dtype=torch.float64)  # two draws of θ
    beliefs = torch.distributions.Dirichlet(alphas)
    pi = beliefs.sample(torch.Size([200_000]))  # [samples, θ, classes]
    terms = decompose(beliefs.mean.unsqueeze(1), beliefs.variance.unsqueeze(1))
    torch.testing.assert_close(terms.reducible[0], pi.mean(0).var(0), rtol=0.03, atol=0)
    torch.testing.assert_close(terms.irreducible[0], pi.var(0).mean(0), rtol=0.03, atol=0)
    torch.testing.assert_close(terms.data[0], (pi * (1 - pi)).mean((0, 1)), rtol=0.03, atol=0)


@pytest.mark.parametrize("draws", [2, 3, 10, 11])
@pytest.mark.parametrize("way", ["independent", "pairs", "independent, taken for pairs"])
def test_the_variance_over_draws_has_no_bias(draws: int, way: str) -> None:
    """Against the variance of exp(ε / 2) in closed form, also where draws are ± ε."""
    if draws == 2 and way != "independent":
        return  # a single pair tells nothing
    half = torch.randn((draws + 1) // 2, 200_000, generator=torch.Generator().manual_seed(0)).double()
    other = torch.randn(draws // 2, 200_000, generator=torch.Generator().manual_seed(1)).double()
    noise = torch.cat([half, -half[: draws // 2] if way == "pairs" else other])
    found = variance_over_draws((noise / 2).exp(), paired=way != "independent").mean()
    torch.testing.assert_close(
        found, torch.tensor(math.exp(0.5) - math.exp(0.25)).double(), rtol=0.02, atol=0
    )


def test_one_draw_tells_nothing_of_the_variance() -> None:
    assert (variance_over_draws(torch.rand(1, 4)) == 0).all()
    assert (variance_over_draws(torch.rand(2, 4), paired=True) == 0).all()


@settings(deadline=None)
@given(st.floats(0.5, 1), st.floats(0.5, 1))
def test_more_bayes_risk_means_more_data_uncertainty(first: float, second: float) -> None:
    """The Proposition of section 3, for two classes where the larger probability is at least one half."""
    assume(min(1 - first, first) >= min(1 - second, second))
    data = [
        float(decompose(torch.tensor([[[p, 1 - p]]]).double(), torch.zeros(1, 1, 2)).data[0, 0])
        for p in (first, second)
    ]
    assert data[0] >= data[1] - 1e-15


def test_entropy_is_that_of_torch_distributions() -> None:
    torch.manual_seed(0)
    probabilities = torch.rand(5, 4).softmax(-1)
    expected = torch.distributions.Categorical(probabilities).entropy()
    torch.testing.assert_close(categorical_entropy(probabilities).float(), expected)


@pytest.mark.parametrize(("members", "draws"), [(2, 2), (5, 10), (5, 1)])
def test_draws_of_an_ensembles_members_are_compared_without_bias(members: int, draws: int) -> None:
    """θ = (member, draw): the spread of members and that of their own draws, 4 + 1, however few there are."""
    generator = torch.Generator().manual_seed(0)
    own = 2 * torch.randn(20_000, members, 1, generator=generator)
    drawn = own + torch.randn(20_000, members, draws, generator=generator)
    found = variance_over_draws(drawn.flatten(1).T, members=members)
    assert float(found.mean()) == pytest.approx(5, rel=0.05)


def test_the_mean_over_draws_stands_outside_of_the_product() -> None:
    likelihoods = torch.tensor([[0.9, 0.8], [0.1, 0.3]], dtype=torch.float64)
    expected = torch.log((torch.tensor(0.9 * 0.8) + 0.1 * 0.3) / 2).double()
    torch.testing.assert_close(log_joint(likelihoods.log()), expected)


def test_a_long_product_does_not_underflow() -> None:
    assert torch.isfinite(log_joint(torch.full((3, 10_000), -5.0)))


@pytest.mark.parametrize("classes", [1, 2, 3, 4, 10])
def test_few_classes_add_up_to_the_bit_as_many_do(classes):
    values = torch.rand(3, 5, classes, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(sum_over_classes(values), values.sum(-1))
    assert torch.equal(sum_over_classes(values, keepdim=True), values.sum(-1, keepdim=True))


@pytest.mark.parametrize(("rows", "classes"), [(1, 3), (700, 2), (700, 3), (200, 10), (50, 100)])
def test_a_softmax_is_scipy_s_however_many_rows_and_classes_there_are(rows: int, classes: int) -> None:
    logits = 300 * torch.randn(rows, classes, generator=torch.Generator().manual_seed(0))
    found = softmax(logits)
    np.testing.assert_allclose(found, scipy.special.softmax(logits.double().numpy(), -1), rtol=1e-10)
    np.testing.assert_allclose(found[:1], softmax(logits[:1]), rtol=1e-12)
