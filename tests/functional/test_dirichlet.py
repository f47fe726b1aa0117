"""Every formula against sixty digits, for log-concentrations in [−15, 15] and 2 to 1000 classes.

The gradients of KL and expected NLL against autograd and differences.
"""

import math
from collections.abc import Callable

import hypothesis.extra.numpy as arrays
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from totalcal.functional import dirichlet

mpmath.mp.dps = 60


def log_concentrations(classes: int) -> st.SearchStrategy[np.ndarray]:
    return arrays.arrays(np.float32, classes, elements=st.floats(-15, 15, width=32))


def exact_alpha(log_alpha: np.ndarray) -> list[mpmath.mpf]:
    return [mpmath.exp(mpmath.mpf(float(value))) for value in log_alpha]


def exact_kl(log_alpha: np.ndarray, log_beta: np.ndarray) -> mpmath.mpf:
    alpha, beta = exact_alpha(log_alpha), exact_alpha(log_beta)
    total = mpmath.fsum(alpha)
    result = mpmath.loggamma(total) - mpmath.loggamma(mpmath.fsum(beta))
    for a, b in zip(alpha, beta, strict=True):
        result += mpmath.loggamma(b) - mpmath.loggamma(a)
        result += (a - b) * (mpmath.digamma(a) - mpmath.digamma(total))
    return result


def exact_expected_entropy(log_alpha: np.ndarray) -> mpmath.mpf:
    alpha = exact_alpha(log_alpha)
    total = mpmath.fsum(alpha)
    inner = mpmath.fsum(a / total * mpmath.digamma(a + 1) for a in alpha)
    return mpmath.digamma(total + 1) - inner


def exact_entropy_of_mean(log_alpha: np.ndarray) -> mpmath.mpf:
    alpha = exact_alpha(log_alpha)
    total = mpmath.fsum(alpha)
    return -mpmath.fsum(a / total * mpmath.log(a / total) for a in alpha)


def assert_exact(actual: Tensor, expected: mpmath.mpf, log_alpha: np.ndarray) -> None:
    total = float(mpmath.fsum(exact_alpha(log_alpha)))
    tolerance = 1e-5 * abs(float(expected)) + 1e-14 * max(1.0, abs(math.lgamma(total)))
    assert abs(mpmath.mpf(float(actual)) - expected) <= tolerance


@settings(deadline=None, max_examples=40)
@given(st.data(), st.sampled_from([2, 3, 10]))
def test_kl_agrees_with_sixty_digits(data: st.DataObject, classes: int) -> None:
    log_alpha, log_beta = data.draw(log_concentrations(classes)), data.draw(log_concentrations(classes))
    actual = dirichlet.kl(torch.from_numpy(log_alpha), torch.from_numpy(log_beta))
    assert_exact(actual, exact_kl(log_alpha, log_beta), log_alpha)


@settings(deadline=None, max_examples=40)
@given(st.data(), st.sampled_from([2, 10]), st.sampled_from([1e-6, 1e-4, 1e-2]))
def test_kl_of_close_pairs_agrees_with_sixty_digits(data: st.DataObject, classes: int, gap: float) -> None:
    log_alpha = data.draw(log_concentrations(classes))
    log_beta = np.clip(log_alpha * np.float32(1 + gap) + np.float32(gap), -15, 15).astype(np.float32)
    actual = dirichlet.kl(torch.from_numpy(log_alpha), torch.from_numpy(log_beta))
    assert_exact(actual, exact_kl(log_alpha, log_beta), log_alpha)


@pytest.mark.parametrize("classes", [100, 1000])
@pytest.mark.parametrize("level", [-15.0, 0.0, 15.0, None])
@pytest.mark.parametrize("gap", [1e-6, 1.0])
def test_kl_of_many_classes_agrees_with_sixty_digits(classes: int, level: float | None, gap: float) -> None:
    rng = np.random.default_rng(0)
    spread = rng.uniform(-15, 15, classes) if level is None else np.full(classes, level)
    log_alpha = spread.astype(np.float32)
    log_beta = np.clip(log_alpha + gap * rng.normal(size=classes), -15, 15).astype(np.float32)
    actual = dirichlet.kl(torch.from_numpy(log_alpha), torch.from_numpy(log_beta))
    assert_exact(actual, exact_kl(log_alpha, log_beta), log_alpha)


@settings(deadline=None, max_examples=40)
@given(st.data(), st.sampled_from([2, 10]))
def test_moments_nll_and_squared_error_agree_with_sixty_digits(data: st.DataObject, classes: int) -> None:
    log_alpha = data.draw(log_concentrations(classes))
    label = data.draw(st.integers(0, classes - 1))
    given_alpha, given_label = torch.from_numpy(log_alpha)[None], torch.tensor([label])
    alpha = exact_alpha(log_alpha)
    total = mpmath.fsum(alpha)
    means = [a / total for a in alpha]
    variances = [m * (1 - m) / (total + 1) for m in means]
    errors = [((k == label) - m) ** 2 for k, m in enumerate(means)]
    assert_exact(dirichlet.mean(given_alpha)[0, label], means[label], log_alpha)
    assert_exact(dirichlet.variance(given_alpha)[0, label], variances[label], log_alpha)
    nll = mpmath.digamma(total) - mpmath.digamma(alpha[label])
    assert_exact(dirichlet.expected_nll(given_alpha, given_label), nll, log_alpha)
    squared = mpmath.fsum(errors) + mpmath.fsum(variances)
    assert_exact(dirichlet.expected_squared_error(given_alpha, given_label), squared, log_alpha)


@settings(deadline=None, max_examples=40)
@given(st.data(), st.sampled_from([2, 10]))
def test_entropies_agree_with_sixty_digits(data: st.DataObject, classes: int) -> None:
    log_alpha = data.draw(log_concentrations(classes))
    given_alpha = torch.from_numpy(log_alpha)
    expected, total = exact_expected_entropy(log_alpha), exact_entropy_of_mean(log_alpha)
    assert_exact(dirichlet.expected_entropy(given_alpha), expected, log_alpha)
    assert_exact(dirichlet.entropy_of_mean(given_alpha), total, log_alpha)
    assert_exact(dirichlet.mutual_information(given_alpha), total - expected, log_alpha)


def test_kl_of_two_classes_agrees_with_a_numerical_integral() -> None:
    log_alpha, log_beta = torch.tensor([0.7, -0.2]), torch.tensor([0.1, 0.9])
    a, b = log_alpha.exp().tolist(), log_beta.exp().tolist()

    def integrand(p: float) -> float:
        density = math.exp(_log_beta_density(p, a))
        return density * (_log_beta_density(p, a) - _log_beta_density(p, b))

    integral = float(mpmath.quad(integrand, [0, 0.01, 0.5, 0.99, 1]))
    assert dirichlet.kl(log_alpha, log_beta).item() == pytest.approx(integral, rel=1e-4)


def _log_beta_density(p: float, parameters: list[float]) -> float:
    first, second = parameters
    normaliser = math.lgamma(first + second) - math.lgamma(first) - math.lgamma(second)
    return float(normaliser + (first - 1) * mpmath.log(p) + (second - 1) * mpmath.log(1 - p))


def test_expected_nll_and_entropy_agree_with_draws() -> None:
    log_alpha = torch.tensor([0.5, 1.0, -0.5])
    draws = torch.distributions.Dirichlet(log_alpha.double().exp())
    torch.manual_seed(0)
    pi = draws.sample(torch.Size([200_000]))
    nll = dirichlet.expected_nll(log_alpha[None], torch.tensor([1]))
    torch.testing.assert_close(nll[0], -pi[:, 1].log().mean(), rtol=2e-2, atol=0)
    entropy = torch.special.entr(pi).sum(-1).mean()
    torch.testing.assert_close(dirichlet.expected_entropy(log_alpha), entropy, rtol=2e-2, atol=0)


@pytest.mark.parametrize(
    "formula",
    [
        lambda x: dirichlet.kl(x, x.flip(-1) * 0.5),
        lambda x: dirichlet.expected_nll(x, torch.tensor([0, 2])),
        lambda x: dirichlet.expected_squared_error(x, torch.tensor([0, 2])),
        dirichlet.variance,
        dirichlet.mutual_information,
    ],
)
def test_gradients_agree_with_finite_differences(formula: Callable[[Tensor], Tensor]) -> None:
    log_alpha = torch.tensor([[0.3, -1.0, 2.0], [1.5, 0.2, -0.4]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(formula, log_alpha)


def by_autograd(log_alpha: Tensor, log_beta: Tensor) -> Tensor:
    beliefs = torch.distributions.Dirichlet(log_alpha.exp()), torch.distributions.Dirichlet(log_beta.exp())
    return torch.distributions.kl_divergence(*beliefs)


@pytest.mark.parametrize("scale", [0.1, 2.0, 5.0])
def test_the_gradient_agrees_with_torch_distributions(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    ours = [scale * torch.randn(6, 4, generator=generator, dtype=torch.float64) for _ in range(2)]
    theirs = [tensor.clone().requires_grad_() for tensor in ours]
    ours = [tensor.requires_grad_() for tensor in ours]
    weights = torch.arange(1.0, 7.0, dtype=torch.float64)
    (weights * dirichlet.kl(*ours)).sum().backward()
    (weights * by_autograd(*theirs)).sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        assert_close(mine.grad, other.grad, rtol=1e-7, atol=1e-9)


def test_the_gradient_holds_at_the_ends_of_the_range() -> None:
    log_alpha = torch.tensor(
        [[-15.0, 15.0, 0.0], [15.0, 15.0, 15.0], [-15.0, -15.0, -14.0]], dtype=torch.float64
    )
    log_beta = log_alpha.flip(1) * 0.9
    beliefs = log_alpha.requires_grad_(), log_beta.requires_grad_()
    assert torch.autograd.gradcheck(dirichlet.kl, beliefs, eps=1e-5, atol=1e-3, rtol=1e-4)


def test_both_terms_at_once_agree_with_each_by_itself() -> None:
    generator = torch.Generator().manual_seed(0)
    ours = [torch.randn(6, 4, generator=generator, dtype=torch.float64) for _ in range(2)]
    theirs = [tensor.clone().requires_grad_() for tensor in ours]
    ours = [tensor.requires_grad_() for tensor in ours]
    labels = torch.tensor([0, 1, 2, 3, 0, 1])
    nll, kl = dirichlet.free_energy(*ours, labels)
    plain_nll, plain_kl = dirichlet.expected_nll(theirs[0], labels), by_autograd(*theirs)
    assert_close((nll, kl), (plain_nll, plain_kl))
    weights = torch.arange(1.0, 7.0, dtype=torch.float64)
    (weights * nll + kl.square()).sum().backward()
    (weights * plain_nll + plain_kl.square()).sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        assert_close(mine.grad, other.grad, rtol=1e-7, atol=1e-9)


def test_the_expected_nll_alone_has_its_gradient() -> None:
    log_alpha = torch.tensor([[-15.0, 15.0, 0.0], [1.0, -2.0, 3.0]], dtype=torch.float64).requires_grad_()
    labels = torch.tensor([2, 1])

    def nll(beliefs: Tensor) -> Tensor:
        return dirichlet.free_energy(beliefs, torch.zeros_like(beliefs), labels)[0]

    assert torch.autograd.gradcheck(nll, log_alpha, eps=1e-5, atol=1e-3, rtol=1e-4)
