"""A linear layer with Gaussian weights, drawn at its output (local reparameterisation, Kingma et al.)."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

_ROOT_GUARD = 1e-8  # an all-zero row has variance 0, and the root's gradient there is not finite


def local_linear(
    inputs: Tensor, mean: Tensor, log_variance: Tensor, bias: Tensor | None, epsilon: Tensor, limit: float
) -> Tensor:
    """xμᵀ + b + √(x² (σ²)ᵀ + 10⁻⁸) ε, with log σ² cut to ± `limit`; rows × outputs.

    In the precision of the weights also under autocast: variances are too small for half of it.
    """
    with torch.autocast(inputs.device.type, enabled=False):
        function = _LocalLinear.apply if torch.is_grad_enabled() else _LocalLinear.forward
        result: Tensor = function(inputs.to(mean.dtype), mean, log_variance, bias, epsilon, limit)[0]
    return result


class _LocalLinear(torch.autograd.Function):
    """With g the gradient of the output and s the root, the gradients are, beside those of a linear layer,

    q = g ε / 2s,   of x: 2 x (q σ²),   of log σ²: (qᵀ x²) σ² where it was not cut.

    Written out, since passes over the weights are what a mean-field step costs above its matrix products:
    autograd's own take twice as many.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        inputs: Tensor, mean: Tensor, log_variance: Tensor, bias: Tensor | None, epsilon: Tensor, limit: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        variance = log_variance.clamp(-limit, limit).exp_()  # [outputs, inputs]
        root = F.linear(inputs.square(), variance).add_(_ROOT_GUARD).sqrt_()  # [rows, outputs]
        return torch.addcmul(F.linear(inputs, mean, bias), root, epsilon), root, variance

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        rows, mean, log_variance, bias, epsilon, limit = inputs
        _, root, variance = output
        ctx.mark_non_differentiable(root, variance)
        ctx.save_for_backward(rows, mean, log_variance, epsilon, root, variance)
        ctx.has_bias, ctx.limit = bias is not None, limit

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        inputs, mean, log_variance, epsilon, root, variance = ctx.saved_tensors
        inner = (outer * epsilon).div_(root).mul_(0.5)  # q
        of_inputs = None
        if ctx.needs_input_grad[0]:
            of_inputs = (inner @ variance).mul_(inputs).mul_(2).addmm_(outer, mean)
        of_log_variance = (inner.t() @ inputs.square()).mul_(variance)
        of_log_variance = torch.ops.aten.hardtanh_backward(
            of_log_variance, log_variance, -ctx.limit, ctx.limit
        )
        of_bias = outer.sum(0) if ctx.has_bias else None
        return of_inputs, outer.t() @ inputs, of_log_variance, of_bias, None, None
