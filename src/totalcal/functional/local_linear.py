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

    In the precision of the weights also under autocast: variances are too small for half of it.
    """
    with torch.autocast(inputs.device.type, enabled=False):
        function = _LocalLinear.apply if torch.is_grad_enabled() else _LocalLinear.forward
        results = function(inputs.to(mean.dtype), mean, log_variance, bias, epsilon, limit, precision)
    return LocalLinear(*results[:2])


class _LocalLinear(torch.autograd.Function):
    """With g the gradient of the output, c that of the KL and s the root, the gradients are

    q = g ε / 2s,   of x: g μ + 2 x (q σ²),   of μ: gᵀ x + c β μ,   of log σ²: (qᵀ x² + c β/2) σ² − c/2,

    the last where it was not cut. Written out, since passes over the weights are what a mean-field step costs
    above its matrix products: autograd's own take several times as many.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        inputs: Tensor,
        mean: Tensor,
        log_variance: Tensor,
        bias: Tensor | None,
        epsilon: Tensor,
        limit: float,
        precision: float | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        cut = log_variance.clamp(-limit, limit)  # [outputs, inputs]
        log_variances = None if precision is None else cut.sum()
        variance = cut.exp_()
        root = F.linear(inputs.square(), variance).add_(_ROOT_GUARD).sqrt_()  # [rows, outputs]
        output = torch.addcmul(F.linear(inputs, mean, bias), root, epsilon)
        kl = mean.new_zeros(())
        if precision is not None and log_variances is not None:
            kl = isotropic_kl_of_sums(mean, variance.sum(), log_variances, precision)
        return output, kl, root, variance

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        rows, mean, log_variance, bias, epsilon, limit, precision = inputs
        _, _, root, variance = output
        ctx.mark_non_differentiable(root, variance)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows, mean, log_variance, epsilon, root, variance)
        ctx.has_bias, ctx.limit, ctx.precision = bias is not None, limit, precision

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, outer: Tensor | None, of_kl: Tensor | None, *unused: Tensor
    ) -> tuple[Tensor | None, ...]:
        inputs, mean, log_variance, epsilon, root, variance = ctx.saved_tensors
        outer = torch.zeros_like(root) if outer is None else outer
        inner = (outer * epsilon).div_(root).mul_(0.5)  # q
        of_inputs = None
        if ctx.needs_input_grad[0]:
            of_inputs = (inner @ variance).mul_(inputs).mul_(2).addmm_(outer, mean)
        of_mean, of_log_variance = outer.t() @ inputs, inner.t() @ inputs.square()
        if of_kl is None or ctx.precision is None:
            of_log_variance.mul_(variance)
        else:
            scaled = of_kl * ctx.precision
            of_mean.addcmul_(mean, scaled)
            of_log_variance.add_(0.5 * scaled).mul_(variance).sub_(0.5 * of_kl)
        passed = torch.ops.aten.hardtanh_backward.grad_input  # the gradient of a cut, in place
        passed(of_log_variance, log_variance, -ctx.limit, ctx.limit, grad_input=of_log_variance)
        of_bias = outer.sum(0) if ctx.has_bias else None
        return of_inputs, of_mean, of_log_variance, of_bias, None, None, None
