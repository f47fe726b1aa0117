"""Divergences against torch.distributions and a numerical integral."""

import math

import pytest
import torch
from scipy import integrate

from totalcal.functional import gaussian


def test_kl_agrees_with_torch_distributions() -> None:
    torch.manual_seed(0)
    means, scales = torch.randn(2, 6), torch.rand(2, 6) + 0.1
    ours = gaussian.kl(means[0], scales[0].square(), means[1], scales[1].square())
    normals = [torch.distributions.Normal(m, s) for m, s in zip(means, scales, strict=True)]
    torch.testing.assert_close(ours, torch.distributions.kl_divergence(*normals).sum())


def test_kl_to_the_weights_prior_agrees_with_torch_distributions() -> None:
    torch.manual_seed(0)
    mean, log_variance = torch.randn(3, 4), torch.randn(3, 4)
    ours = gaussian.kl_to_isotropic(mean, log_variance, precision=10.0)
    posterior = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    prior = torch.distributions.Normal(0.0, 10**-0.5)
    torch.testing.assert_close(ours, torch.distributions.kl_divergence(posterior, prior).sum())


def test_differences_of_the_log_uniform_kl_agree_with_an_integral() -> None:
    """The prior is improper, so that only differences count: −½ log σ² + E log |w| up to a constant."""

    def exact(mean: float, variance: float) -> float:
        scale = math.sqrt(variance)

        def integrand(w: float) -> float:
            density = math.exp(-0.5 * ((w - mean) / scale) ** 2) / (scale * math.sqrt(2 * math.pi))
            return density * math.log(abs(w) + 1e-300)

        expected_log = integrate.quad(integrand, mean - 12 * scale, 0, limit=200)[0]
        expected_log += integrate.quad(integrand, 0, mean + 12 * scale, limit=200)[0]
        return expected_log - 0.5 * math.log(variance)

    ours = [
        float(gaussian.kl_to_log_uniform(torch.tensor([1.0]), torch.tensor([math.log(v)])))
        for v in (0.3, 1.0, 4.0)
    ]
    truth = [exact(1.0, v) for v in (0.3, 1.0, 4.0)]
    assert ours[0] - ours[1] == pytest.approx(truth[0] - truth[1], abs=0.02)
    assert ours[1] - ours[2] == pytest.approx(truth[1] - truth[2], abs=0.02)
