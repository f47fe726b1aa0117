"""Gaussian distributions with independent entries: draws, divergences, and the precision they need."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# The constants of the sigmoid approximation (Molchanov et al. 2017, eq. 14).
_LOG_UNIFORM_K1, _LOG_UNIFORM_K2, _LOG_UNIFORM_K3 = 0.63576, 1.87320, 1.48695


def standard_normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Tensor:
    """ε ~ N(0, I) of a shape, on the device and in the precision of `like`, from any device's generator."""
    if generator is None:  # not even named: torch.compile cannot trace a shape that it does not know with one
        return torch.randn(shape, device=like.device, dtype=like.dtype)
    drawn = torch.randn(shape, generator=generator, device=generator.device, dtype=like.dtype)
    return drawn.to(like.device)


def kl(mean: Tensor, variance: Tensor, prior_mean: Tensor, prior_variance: Tensor) -> Tensor:
    """KL(N(μ, σ²) ‖ N(μ₀, σ₀²)) = ½ Σ [σ²/σ₀² + (μ − μ₀)²/σ₀² − 1 − log(σ²/σ₀²)], over the last axis.

    >>> one = torch.ones(2)
    >>> kl(one, one, 0 * one, one)
    tensor(1.)
    """
    mean, variance, prior_mean, prior_variance = map(
        at_least_single, (mean, variance, prior_mean, prior_variance)
    )
    ratio = variance / prior_variance
    shift = (mean - prior_mean).square() / prior_variance
    return 0.5 * (ratio + shift - 1 - ratio.log()).sum(-1)


def kl_to_isotropic(mean: Tensor, log_variance: Tensor, precision: float) -> Tensor:
    """KL(N(μ, σ²) ‖ N(0, 1/β)) = ½ Σ [β (μ² + σ²) − log σ² − 1 − log β], a scalar: the weights' prior."""
    divergence: Tensor = _KLToIsotropic.apply(mean, log_variance, precision)
    return divergence


def isotropic_kl_of_sums(mean: Tensor, variances: Tensor, log_variances: Tensor, precision: float) -> Tensor:
    """The same from Σ σ² and Σ log σ², for whoever has them at hand."""
    quadratic: Tensor = precision * (torch.linalg.vector_norm(mean).square() + variances)
    return 0.5 * (quadratic - log_variances - mean.numel() * (1 + math.log(precision)))


class _KLToIsotropic(torch.autograd.Function):
    """The gradient is β μ and ½ (β σ² − 1): three passes over the weights, not the dozen of autograd."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, log_variance: Tensor, precision: float) -> Tensor:
        variance = log_variance.exp()
        ctx.save_for_backward(mean, variance)
        ctx.precision = precision
        return isotropic_kl_of_sums(mean, variance.sum(), log_variance.sum(), precision)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None]:
        mean, variance = ctx.saved_tensors
        scaled = outer * ctx.precision
        return mean * scaled, (variance * (0.5 * scaled)).sub_(0.5 * outer), None


def kl_to_log_uniform(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(μ, σ²) ‖ log-uniform) up to a constant, by a sigmoid (Molchanov et al. 2017), a scalar.

    −KL ≈ k₁ sigmoid(k₂ + k₃ log a) − ½ log(1 + 1/a) − k₁, with a = σ²/μ²
    """
    log_ratio = log_variance - mean.square().clamp_min(1e-16).log()  # log a; a mean may be exactly 0
    gain = _LOG_UNIFORM_K1 * (torch.sigmoid(_LOG_UNIFORM_K2 + _LOG_UNIFORM_K3 * log_ratio) - 1)
    return (0.5 * torch.nn.functional.softplus(-log_ratio) - gain).sum()


HALVES = (torch.float16, torch.bfloat16)


def at_least_single(tensor: Tensor) -> Tensor:
    """Half precision as float32, anything else as it is.

    >>> at_least_single(torch.ones(1, dtype=torch.bfloat16)).dtype
    torch.float32
    """
    return tensor.float() if tensor.dtype in HALVES else tensor
