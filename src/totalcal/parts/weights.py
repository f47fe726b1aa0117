"""The slot for the weights w: mean-field layers q(w) = N(μ, σ²) for any module (section 6, BNN)."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from totalcal.errors import InputError, UnknownNameError
from totalcal.functional.gaussian import HALVES, kl_to_isotropic, kl_to_log_uniform
from totalcal.functional.local_linear import local_linear
from totalcal.parts.sampling import (
    LastUse,
    StochasticLayer,
    WeightKLs,
    pass_to_draw_in,
    running_pass,
    stochastic_layers,
)

Layers = Literal["linear", "all", "none"] | str | Iterable[str]

_INITIAL_LOG_VARIANCE, _INITIAL_SPREAD = -9.0, 1e-3
_LOG_VARIANCE_LIMIT = 11.0
_HOOKS = {name for name in vars(nn.Module()) if "hook" in name}


class WeightPrior(Protocol):
    """p(w), known by its divergence from a mean-field posterior."""

    def kl(self, mean: Tensor, log_variance: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class NormalPrior:
    """p(w) = N(0, 1/β)."""

    precision: float = 10.0

    def kl(self, mean: Tensor, log_variance: Tensor) -> Tensor:
        return kl_to_isotropic(mean, log_variance, self.precision)


@dataclass(frozen=True)
class LogUniformPrior:
    """p(log |w|) ∝ 1, which prunes weights (Molchanov et al. 2017)."""

    def kl(self, mean: Tensor, log_variance: Tensor) -> Tensor:
        return kl_to_log_uniform(mean, log_variance)


class MeanFieldLayer(StochasticLayer):
    """What linear and convolutional layers share: means, log-variances, a point bias, a prior.

    Weight and bias stay trainable or frozen as they were; so do hooks and the mode.
    """

    def __init__(self, layer: nn.Linear | nn.Conv2d, prior: WeightPrior) -> None:
        super().__init__()
        mean, bias = layer.weight.detach(), layer.bias
        trainable = layer.weight.requires_grad
        noise = torch.randn(mean.shape, device="cpu").to(mean.dtype)
        start = (noise * _INITIAL_SPREAD + _INITIAL_LOG_VARIANCE).to(mean.device)
        self.weight_mean = nn.Parameter(mean.clone(), trainable)
        self.weight_log_variance = nn.Parameter(start, trainable)
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone(), bias.requires_grad)
        self.prior = prior
        self.to(mean.device, mean.dtype)  # where that is half precision, ours stay in float32
        self.train(layer.training)
        vars(self).update({name: hooks for name, hooks in vars(layer).items() if name in _HOOKS})

    def extra_repr(self) -> str:
        return f"weight={tuple(self.weight_mean.shape)}, bias={self.bias is not None}, prior={self.prior}"

    @property
    def log_variance(self) -> Tensor:
        # Not `clamp`: its gradient takes four passes over the weights, that of `hardtanh` one.
        return F.hardtanh(self.weight_log_variance, -_LOG_VARIANCE_LIMIT, _LOG_VARIANCE_LIMIT)

    @property
    def weight(self) -> Tensor:
        """The weights of the pass that is running, for modules that reach into a layer; else their means."""
        return self.weight_mean if running_pass() is None else self.drawn_weight().to(self.output_dtype)

    def kl(self) -> Tensor:
        return self.prior.kl(self.weight_mean, self.log_variance)

    @property
    def noise_like(self) -> Tensor:
        return self.weight_mean

    def drawn_weight(self) -> Tensor:
        """w = μ + σ ε: one draw per pass, shared by all rows and positions; μ where means are asked for."""
        running = pass_to_draw_in()
        if running is None:
            return self.weight_mean
        if running.is_at_means:
            running.uses[self] = running.uses.get(self, 0) + 1
            return self.weight_mean
        if self in running.weights:
            return running.weights[self]
        weight = self.drawn_weights(running.of_weights(self))
        # With gradients it is made anew each time: a part of the pass that is run again must do what it did.
        if not running.with_gradients:
            running.weights[self] = weight
        return weight

    def drawn_weights(self, epsilons: Tensor) -> Tensor:
        """w = μ + σ ε for the ε of several draws."""
        return self.weight_mean + (0.5 * self.log_variance).exp() * epsilons

    def received(self, inputs: Tensor) -> Tensor:
        """Inputs in the precision of the weights; autocast has ways of its own."""
        if inputs.dtype in HALVES and not torch.is_autocast_enabled(inputs.device.type):
            return inputs.to(self.weight_mean.dtype)
        return inputs

    def given(self, output: Tensor) -> Tensor:
        """The output in the precision that the module was converted to, where that is a half one."""
        return output.to(self.output_dtype) if self.output_dtype in HALVES else output


class MeanFieldLinear(MeanFieldLayer):
    """xμᵀ + b + √(x² (σ²)ᵀ) ε for a matrix of rows; a draw of the weights where rows have positions too.

    Local reparameterisation gives every row its own draw of the weights at the price of one. It is exact
    where the layer is used once per input; over positions or time, which share weights, it would keep the
    marginals only.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        running = pass_to_draw_in()
        if inputs.dim() != 2 or running is None or not running.draws_at_outputs(self):
            output = self.given(F.linear(self.received(inputs), self.drawn_weight(), self.bias))
            if running is not None and running.is_at_means and not torch.is_inference(output):
                running.last = LastUse.of(self, inputs, output)
            return output
        epsilon = running.of_outputs(self, (len(inputs), len(self.weight_mean)), self.weight_mean)
        weights = self.weight_mean, self.weight_log_variance, self.bias
        if running.kls is None or not isinstance(self.prior, NormalPrior):
            return self.given(local_linear(inputs, *weights, epsilon, _LOG_VARIANCE_LIMIT).output)
        output, running.kls[self] = local_linear(
            inputs, *weights, epsilon, _LOG_VARIANCE_LIMIT, self.prior.precision
        )
        return self.given(output)

    def drawn_moves(self, epsilons: Tensor) -> Tensor:
        """σ ε for the ε of several draws, one below the other: [draws · outputs, inputs]."""
        return ((0.5 * self.log_variance).exp() * epsilons).flatten(0, 1)

    def moved_outputs(self, inputs: Tensor, moves: Tensor, is_paired: bool) -> Tensor:
        """Draws × rows × outputs for `drawn_moves`: of a pair, x (μ ± σ ε)ᵀ shares both products."""
        rows = self.received(inputs)
        mean = F.linear(rows, self.weight_mean, self.bias)
        moved = F.linear(rows, moves).unflatten(-1, (-1, mean.shape[-1])).movedim(-2, 0)
        return self.given(torch.cat([mean + moved, mean - moved] if is_paired else [mean + moved]))

    def outputs_of_draws(self, inputs: Tensor, weights: Tensor) -> Tensor:
        """Draws × rows × outputs for inputs of each draw and the weights that were drawn."""
        products = self.received(inputs) @ weights.mT
        return self.given(products if self.bias is None else products + self.bias)


class MeanFieldConv2d(MeanFieldLayer):
    """A convolution with drawn weights.

    Positions share the weights: their outputs move together, so that the variance of a pooled output is many
    times what independent noise at each output would give.
    """

    def __init__(self, layer: nn.Conv2d, prior: WeightPrior) -> None:
        super().__init__(layer, prior)
        self.stride, self.dilation, self.groups = layer.stride, layer.dilation, layer.groups
        self.padding, self.padding_mode = layer.padding, layer.padding_mode
        if layer.padding_mode != "zeros":
            raise InputError(
                f"a mean-field convolution pads with zeros, but this layer pads by {layer.padding_mode!r}. "
                "Leave it out of `layers`, or pad before it with nn.functional.pad."
            )

    def forward(self, inputs: Tensor) -> Tensor:
        rows, weight = self.received(inputs), self.drawn_weight()
        output = F.conv2d(rows, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        return self.given(output)


def mean_field(module: nn.Module, layers: Layers = "linear", prior: WeightPrior | None = None) -> nn.Module:
    """A copy of `module` whose chosen layers are mean-field; trained weights are kept as means.

    Only what is exactly an `nn.Linear` or `nn.Conv2d` is converted. A subclass may do anything with its
    weight, an attention uses its own outside of any layer, and a weight that two modules share would fall
    apart: they stay points, and `point_layers` says which and why. Hooks, frozen weights and a layer in
    several places stay what they are.

    Args:
        module: Any net; it is left alone.
        layers: "linear" (all fully connected layers), "all" (convolutions too), "none", a name as in
            `module.named_modules()`, a pattern ("*.classifier"), or several names and patterns.
        prior: p(w), N(0, 1/10) if not given.

    Raises:
        UnknownNameError: A name or pattern stands for no layer that can be converted.

    >>> net = mean_field(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), layers="2")
    >>> [type(layer).__name__ for layer in net]
    ['Linear', 'ReLU', 'MeanFieldLinear']
    """
    chosen = _chosen_names(module, layers)
    result, chosen_prior = copy.deepcopy(module), prior or NormalPrior()
    if "" in chosen:
        return _converted(result, chosen_prior)
    points = [result.get_submodule(name) for name in chosen]
    drawn = {point: _converted(point, chosen_prior) for point in points}
    for name, layer in list(result.named_modules(remove_duplicate=False)):
        if layer in drawn:
            parent, _, child = name.rpartition(".")
            setattr(result.get_submodule(parent), child, drawn[layer])
    _without_fused_kernels(result)
    return result


def _without_fused_kernels(module: nn.Module) -> None:
    """Transformers whose layers draw call them one by one: fused kernels take weights and pass layers by."""
    for part in module.modules():
        if isinstance(part, nn.TransformerEncoderLayer) and stochastic_layers(part):
            part.activation_relu_or_gelu = 0
        if isinstance(part, nn.TransformerEncoder) and stochastic_layers(part):
            part.use_nested_tensor = False


def point_layers(module: nn.Module) -> dict[str, str]:
    """The modules inside of `module` whose weights are points, each with the reason in words.

    >>> point_layers(mean_field(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))))
    {'1': 'a BatchNorm1d has no mean-field form'}
    """
    owners = _owners(module)
    return {
        name: _why_not(part, owners) or "it was not chosen"
        for name, part in module.named_modules()
        if part._parameters and not isinstance(part, StochasticLayer)
    }


def total_weight_kl(module: nn.Module, known: WeightKLs | None = None) -> Tensor:
    """KL(q(w) ‖ p(w)) of all stochastic layers inside of `module`, in nats; 0 where weights are points.

    `known` are KLs that a pass has worked out already; those of a part that ran without gradients, to be run
    again for them (activation checkpointing), are worked out here.
    """
    given, wanted = known or {}, torch.is_grad_enabled()
    kls = [
        given[layer] if layer in given and (given[layer].requires_grad or not wanted) else layer.kl()
        for layer in stochastic_layers(module)
    ]
    return torch.stack(kls).sum() if kls else torch.zeros(())


def _chosen_names(module: nn.Module, layers: Layers) -> list[str]:
    kinds = {"linear": (nn.Linear,), "all": (nn.Linear, nn.Conv2d), "none": ()}
    owners = _owners(module)
    convertible = {name: m for name, m in module.named_modules() if _why_not(m, owners) is None}
    if isinstance(layers, str) and layers in kinds:
        return [name for name, layer in convertible.items() if isinstance(layer, kinds[layers])]
    wanted = [layers] if isinstance(layers, str) else list(layers)
    chosen: dict[str, None] = {}
    for pattern in wanted:
        names = [name for name in convertible if name == pattern or _matches(name, pattern)]
        if not names:
            known = (*kinds, *convertible) if isinstance(layers, str) else tuple(convertible)
            raise UnknownNameError("linear or convolutional layer", pattern, known)
        chosen |= dict.fromkeys(names)
    return list(chosen)


def _matches(name: str, pattern: str) -> bool:
    """As a file name matches; "*.classifier" is a classifier anywhere, also in the net itself."""
    return fnmatchcase(name, pattern) or fnmatchcase(f".{name}", pattern)


def _owners(module: nn.Module) -> dict[nn.Parameter, list[str]]:
    """The modules that each parameter belongs to, by name."""
    owners: dict[nn.Parameter, list[str]] = {}
    for name, part in module.named_modules():
        for parameter in part._parameters.values():
            if parameter is not None:
                owners.setdefault(parameter, []).append(name)
    return owners


def _why_not(part: nn.Module, owners: dict[nn.Parameter, list[str]]) -> str | None:
    """Why a module cannot become mean-field, in words; None where it can."""
    kind = type(part).__name__
    if isinstance(part, nn.Linear | nn.Conv2d) and type(part) not in (nn.Linear, nn.Conv2d):
        base = "Linear" if isinstance(part, nn.Linear) else "Conv2d"
        return f"a {kind} is a subclass of {base} and may use its weight in a way of its own"
    if isinstance(part, nn.MultiheadAttention):
        return "a MultiheadAttention uses its weights outside of any layer"
    if type(part) not in (nn.Linear, nn.Conv2d):
        return f"a {kind} has no mean-field form"
    if part._parameters.get("weight") is None:
        return "its weight is computed from other parameters, by a hook or a parametrization"
    sharing = {name for own in part._parameters.values() if own is not None for name in owners[own]}
    if len(sharing) > 1:
        return f"it shares a parameter with others ({', '.join(sorted(sharing))})"
    return None


def _converted(layer: nn.Module, prior: WeightPrior) -> nn.Module:
    if isinstance(layer, nn.Linear):
        return MeanFieldLinear(layer, prior)
    assert isinstance(layer, nn.Conv2d)
    return MeanFieldConv2d(layer, prior)
