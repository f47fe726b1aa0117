"""The gradients of KL and expected NLL of Dirichlet distributions against autograd and differences."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from totalcal.functional import dirichlet


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
