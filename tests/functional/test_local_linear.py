"""The drawn output of a linear layer against autograd's own way to the same formula."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from totalcal.functional.local_linear import local_linear

LIMIT = 11.0


def by_autograd(
    inputs: Tensor, mean: Tensor, log_variance: Tensor, bias: Tensor | None, epsilon: Tensor
) -> Tensor:
    variance = F.linear(inputs.square(), log_variance.clamp(-LIMIT, LIMIT).exp())
    return F.linear(inputs, mean, bias) + (variance + 1e-8).sqrt() * epsilon


def arguments(with_bias: bool) -> list[Tensor | None]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 4), (3, 4), (3, 4), (3,)]
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    tensors[0][0] = 0.0  # a row whose output has no variance
    tensors[2][0, 0], tensors[2][1, 1] = 12.0, -12.0  # beyond the limits
    for tensor in tensors:
        tensor.requires_grad_()
    epsilon = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    return [*tensors[:3], tensors[3] if with_bias else None, epsilon]


@pytest.mark.parametrize("with_bias", [True, False])
def test_output_and_gradients_agree_with_autograd(with_bias: bool) -> None:
    ours, theirs = arguments(with_bias), arguments(with_bias)
    output, expected = local_linear(*ours, LIMIT).output, by_autograd(*theirs)
    assert_close(output, expected)
    (output.sin().sum()).backward()
    (expected.sin().sum()).backward()
    for mine, other in zip(ours[:4], theirs[:4], strict=True):
        if mine is not None:
            assert_close(mine.grad, other.grad)


def test_the_kl_and_its_gradients_agree_with_autograd() -> None:
    ours, theirs = arguments(with_bias=True), arguments(with_bias=True)
    output, kl = local_linear(*ours, LIMIT, precision=10.0)
    log_variance = theirs[2].clamp(-LIMIT, LIMIT)
    posterior = torch.distributions.Normal(theirs[1], (0.5 * log_variance).exp())
    prior = torch.distributions.Normal(0.0, 10**-0.5)
    expected = torch.distributions.kl_divergence(posterior, prior).sum()
    assert_close(kl, expected)
    (output.sin().sum() + 0.3 * kl).backward()
    (by_autograd(*theirs).sin().sum() + 0.3 * expected).backward()
    for mine, other in zip(ours[:4], theirs[:4], strict=True):
        assert_close(mine.grad, other.grad)


def test_a_kl_alone_has_its_gradient() -> None:
    _, mean, log_variance, _, _ = ours = arguments(with_bias=True)
    local_linear(*ours, LIMIT, precision=10.0).kl.backward()
    inside = log_variance.detach().abs() < LIMIT
    assert_close(mean.grad, 10 * mean.detach())
    assert_close(log_variance.grad, 0.5 * (10 * log_variance.detach().exp() - 1) * inside)


def test_a_draw_for_each_epsilon_runs_under_vmap() -> None:
    inputs, mean, log_variance, bias, _ = arguments(with_bias=True)
    epsilons = torch.randn(7, 5, 3, dtype=torch.float64)
    weights = mean, log_variance, bias
    expected = torch.stack([by_autograd(inputs, *weights, epsilon) for epsilon in epsilons])
    with torch.no_grad():
        drawn = torch.vmap(lambda epsilon: local_linear(inputs, *weights, epsilon, LIMIT).output)(epsilons)
    assert_close(drawn, expected)


def test_half_precision_around_it_does_not_reach_the_variance() -> None:
    inputs, weights = torch.full((2, 4), 1e-3), torch.zeros(3, 4)
    with torch.autocast("cpu", dtype=torch.float16):
        output = local_linear(inputs.half(), weights, weights - 9, None, torch.ones(2, 3), LIMIT).output
    assert_close(output, by_autograd(inputs, weights, weights - 9, None, torch.ones(2, 3)), rtol=1e-3, atol=0)
