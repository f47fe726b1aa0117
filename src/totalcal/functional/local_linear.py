"""A linear layer with Gaussian weights, drawn at its output (local reparameterisation, Kingma et al.)."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from totalcal.functional.gaussian import isotropic_kl_of_sums

_ROOT_GUARD = 1e-8  # an all-zero row has variance 0, and the root's gradient there is not finite


class LocalLinear(NamedTuple):
    """A drawn output, rows × outputs, and the weights' KL to N(0, 1/β): σ² serves both. 0 without β."""

    output: Tensor
    kl: Tensor


def local_linear(
    inputs: Tensor,
    mean: Tensor,
    log_variance: Tensor,
    bias: Tensor | None,
    epsilon: Tensor,
    limit: float,
    precision: float | None = None,
) -> LocalLinear:
    """xμᵀ + b + √(x² (σ²)ᵀ + 10⁻⁸) ε and KL(N(μ, σ²) ‖ N(0, 1/β)), with log σ² cut to ± `limit`.

    All is in the precision of the weights, under autocast too: variances are too small for half of it.
    """
    with torch.autocast(inputs.device.type, enabled=False):
        rows = inputs.to(mean.dtype)
        if torch.is_grad_enabled() or precision is not None:
            results = _LocalLinear.apply(rows, mean, log_variance, bias, epsilon, limit, precision)
            return LocalLinear(*results[:2])
        root = _root(rows.square(), log_variance.clamp(-limit, limit).exp_())
        return LocalLinear(torch.addcmul(F.linear(rows, mean, bias), root, epsilon), mean.new_zeros(()))


def _root(squares: Tensor, variance: Tensor) -> Tensor:
    """√(x² (σ²)ᵀ + 10⁻⁸), rows × outputs."""
    return F.linear(squares, variance).add_(_ROOT_GUARD).sqrt_()


class _LocalLinear(torch.autograd.Function):
    """With g the gradient of the output, c that of the KL and s the root, the gradients are

    q = g ε / s,   of x: g μ + x (q σ²),   of μ: gᵀ x + c β μ,   of log σ²: ½ [(qᵀ x² + c β) σ² − c],

    the last where it was not cut. Written out, since passes over the weights are what a mean-field step costs
    above its matrix products: autograd's own take several times as many.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        mean: Tensor,
        log_variance: Tensor,
        bias: Tensor | None,
        epsilon: Tensor,
        limit: float,
        precision: float | None,
    ) -> tuple[Tensor, Tensor]:
        low, high = torch.aminmax(log_variance)
        is_cut = bool((low < -limit) | (high > limit))  # hardly ever: two passes are saved
        exponent = log_variance.clamp(-limit, limit) if is_cut else log_variance  # [outputs, inputs]
        variance, squares = exponent.exp(), inputs.square()
        root = _root(squares, variance)
        output = F.linear(inputs, mean, bias).addcmul_(root, epsilon)
        kl = mean.new_zeros(())
        if precision is not None:
            kl = isotropic_kl_of_sums(mean, variance.sum(), exponent.sum(), precision)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(
            inputs, squares, mean, log_variance if is_cut else None, epsilon, root, variance
        )
        ctx.has_bias, ctx.limit, ctx.precision = bias is not None, limit, precision
        return output, kl

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor | None, of_kl: Tensor | None) -> tuple[Tensor | None, ...]:
        inputs, squares, mean, cut, epsilon, root, variance = ctx.saved_tensors
        outer = torch.zeros_like(root) if outer is None else outer
        inner = (outer * epsilon).div_(root)  # q
        of_inputs = None
        if ctx.needs_input_grad[0]:
            of_inputs = (inner @ variance).mul_(inputs).addmm_(outer, mean)
        of_mean, of_log_variance = outer.t() @ inputs, inner.t() @ squares
        if of_kl is None or ctx.precision is None:
            of_log_variance.mul_(variance).mul_(0.5)
        else:
            scaled = of_kl * ctx.precision
            of_mean.addcmul_(mean, scaled)
            of_log_variance.add_(scaled)
            torch.addcmul(-0.5 * of_kl, of_log_variance, variance, value=0.5, out=of_log_variance)
        if cut is not None:
            of_log_variance.masked_fill_(cut.abs() > ctx.limit, 0.0)
        of_bias = outer.sum(0) if ctx.has_bias else None
        return of_inputs, of_mean, of_log_variance, of_bias, None, None, None
