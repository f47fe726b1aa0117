"""The Dirichlet distribution over class probabilities π, from log-concentrations (section 3, appendix A).

Everything is computed in float64 whatever comes in: at α ≈ 10⁶ a KL in float32 is off by whole nats,
and a mutual information comes out negative. The tensors are batch × classes, so it costs nothing.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from totalcal.functional.decomposition import softmax, sum_over_classes

LOG_CONCENTRATION_LIMIT = 15.0


def clamp(log_concentration: Tensor) -> Tensor:
    """Log-concentrations kept in [−15, 15], where every formula of this file is exact."""
    return log_concentration.clamp(-LOG_CONCENTRATION_LIMIT, LOG_CONCENTRATION_LIMIT)


def mean(log_alpha: Tensor) -> Tensor:
    """E[π] = α / α₀.

    >>> import torch
    >>> mean(torch.tensor([[0.0, 0.0]]))
    tensor([[0.5000, 0.5000]], dtype=torch.float64)
    """
    return softmax(log_alpha)


def variance(log_alpha: Tensor) -> Tensor:
    """Var[π] = m (1 − m) / (α₀ + 1), with m the mean."""
    alpha = log_alpha.double().exp()
    total = sum_over_classes(alpha, keepdim=True)
    centre = alpha / total
    return centre * (1 - centre) / (total + 1)


def from_moments(centre: Tensor, spread: Tensor) -> Tensor:
    """The log-concentrations of the Dirichlet distribution with a mean, and with a sum of variances.

    α₀ + 1 = Σ m (1 − m) / Σ Var[π]; a Dirichlet distribution has one number for its spread. Clamped, so
    that no spread at all gives much evidence, and a mean of 0 little.

    >>> import torch
    >>> alpha = torch.tensor([[2.0, 3.0, 5.0]])
    >>> from_moments(mean(alpha.log()), variance(alpha.log())).exp()
    tensor([[2.0000, 3.0000, 5.0000]], dtype=torch.float64)
    """
    centre, spread = centre.double(), spread.double()
    most = (centre * (1 - centre)).sum(-1, keepdim=True)  # a variance that nothing exceeds
    total = most / spread.sum(-1, keepdim=True) - 1
    known = torch.finfo(total.dtype).tiny
    total = total.nan_to_num(nan=torch.inf).clamp_min(known)
    return clamp(centre.clamp_min(known).log() + total.log())


def expected_nll(log_alpha: Tensor, labels: Tensor) -> Tensor:
    """E[−log π_y] = ψ(α₀) − ψ(α_y), the first term of the free energy.

    >>> import torch
    >>> expected_nll(torch.zeros(1, 2), torch.tensor([0]))
    tensor([1.0000], dtype=torch.float64)
    """
    alpha = log_alpha.double().exp()
    return sum_over_classes(alpha).digamma() - _at(labels, alpha).digamma()


def expected_squared_error(log_alpha: Tensor, labels: Tensor) -> Tensor:
    """E‖onehot(y) − π‖² = Σ (y − m)² + Var[π], appendix A.2."""
    residual = mean(log_alpha)
    residual = residual.scatter_add(-1, labels.unsqueeze(-1), -residual.new_ones(labels.shape).unsqueeze(-1))
    return (residual.square() + variance(log_alpha)).sum(-1)


def kl(log_alpha: Tensor, log_beta: Tensor) -> Tensor:
    """KL(Dir(α) ‖ Dir(β)), appendix A.1.

    log Γ(α₀) − log Γ(β₀) − Σ [log Γ(α) − log Γ(β)] + Σ (α − β) (ψ(α) − ψ(α₀)) = Σ D(β, α) − D(β₀, α₀),
    with D(β, α) = log Γ(β) − log Γ(α) − (β − α) ψ(α), how far log Γ lies above its tangent.

    >>> import torch
    >>> kl(torch.zeros(1, 3), torch.zeros(1, 3))
    tensor([0.], dtype=torch.float64)
    """
    divergence: Tensor = _FreeEnergy.apply(log_alpha.double(), log_beta.double(), None)[0]
    return divergence


def free_energy(log_alpha: Tensor, log_beta: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """`expected_nll` and `kl` at once: they share their special functions, forth and back."""
    divergence, nll = _FreeEnergy.apply(log_alpha.double(), log_beta.double(), labels)
    return nll, divergence


def expected_entropy(log_alpha: Tensor) -> Tensor:
    """E[H(y | π)] = ψ(α₀ + 1) − Σ m ψ(α + 1): the entropy that remains when π is known."""
    alpha = log_alpha.double().exp()
    total = sum_over_classes(alpha, keepdim=True)
    inner = sum_over_classes(alpha / total * (alpha + 1).digamma())
    return (total.squeeze(-1) + 1).digamma() - inner


def entropy_of_mean(log_alpha: Tensor) -> Tensor:
    """H(E[π]): the entropy of a label when π is not known."""
    log_mean = log_alpha.double().log_softmax(-1)
    return -(log_mean.exp() * log_mean).sum(-1)


def mutual_information(log_alpha: Tensor) -> Tensor:
    """I(y; π) = H(E[π]) − E[H(y | π)]: what a look at π would tell of the label."""
    return entropy_of_mean(log_alpha) - expected_entropy(log_alpha)


class _FreeEnergy(torch.autograd.Function):
    """The gradients are known, and half as long as what autograd would make of the values:

    of the KL, of log α: α [(α − β) ψ′(α) − (α₀ − β₀) ψ′(α₀)],   of log β: β [ψ(β) − ψ(β₀) − ψ(α) + ψ(α₀)],
    of the expected NLL, of log α: α [ψ′(α₀) − onehot(y) ψ′(α)].

    A last column holds the totals, so that every function is called once.
    """

    @staticmethod
    def forward(
        ctx: Any, log_alpha: Tensor, log_beta: Tensor, labels: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        log_alpha, log_beta = _with_total(log_alpha), _with_total(log_beta)  # [..., classes + 1]
        alpha, beta = log_alpha.exp(), log_beta.exp()
        beyond = (alpha + 1).digamma()  # ψ(α + 1) = ψ(α) + 1/α
        gap = _above_tangent(alpha, beta, log_beta - log_alpha, beyond)
        slope = beyond - alpha.reciprocal()  # ψ(α)
        ctx.save_for_backward(alpha, beta, slope, labels)
        ctx.set_materialize_grads(False)
        divergence = gap[..., :-1].sum(-1) - gap[..., -1]
        return divergence, None if labels is None else slope[..., -1] - _at(labels, slope)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_kl: Tensor | None, of_nll: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, None]:
        alpha, beta, slope, labels = ctx.saved_tensors
        curvature = torch.polygamma(1, alpha)  # ψ′(α)
        of_alpha, of_beta = torch.zeros_like(alpha[..., :-1]), None
        if of_kl is not None:
            outer = of_kl.unsqueeze(-1)
            of_alpha = outer * _less_total((alpha - beta) * curvature)
            of_beta = outer * _less_total(beta.digamma() - slope) * beta[..., :-1]
        if of_nll is not None:
            of_alpha += (of_nll * curvature[..., -1]).unsqueeze(-1)
            of_alpha.scatter_add_(-1, labels.unsqueeze(-1), (-of_nll * _at(labels, curvature)).unsqueeze(-1))
        return of_alpha * alpha[..., :-1], of_beta, None


def _with_total(log_alpha: Tensor) -> Tensor:
    return torch.cat([log_alpha, log_alpha.logsumexp(-1, keepdim=True)], -1)


def _less_total(values: Tensor) -> Tensor:
    return values[..., :-1] - values[..., -1:]


def _at(labels: Tensor, values: Tensor) -> Tensor:
    return values.gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def _above_tangent(alpha: Tensor, beta: Tensor, log_ratio: Tensor, beyond: Tensor) -> Tensor:
    """D(β, α), with the pole at 0 taken out: log Γ(α) = log Γ(α + 1) − log α, ψ(α) = ψ(α + 1) − 1/α.

    Near the pole log Γ and ψ are large and cancel; what they leave, β/α − 1 − log(β/α), does not.
    """
    smooth = (beta + 1).lgamma() - (alpha + 1).lgamma() - (beta - alpha) * beyond
    return smooth + log_ratio.expm1() - log_ratio
