"""The slot for the weights w: mean-field layers q(w) = N(μ, σ²) for any module (section 6, BNN)."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from totalcal.errors import InputError, UnknownNameError
from totalcal.functional.gaussian import kl_to_isotropic, kl_to_log_uniform
from totalcal.functional.local_linear import local_linear, paired_draws
from totalcal.parts.sampling import Sharing, StochasticLayer, WeightKLs, stochastic_layers

Layers = Literal["linear", "all", "none"] | Iterable[str]

_INITIAL_LOG_VARIANCE, _INITIAL_SPREAD = -9.0, 1e-3
_LOG_VARIANCE_LIMIT = 11.0
_ROOT_GUARD = 1e-8  # an all-zero row has variance 0, and the root's gradient there is not finite


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
    """What linear and convolutional layers share: means, log-variances, a point bias, a prior."""

    def __init__(self, mean: Tensor, bias: Tensor | None, prior: WeightPrior) -> None:
        super().__init__()
        self.weight_mean = nn.Parameter(mean.detach().clone())
        start = torch.randn(mean.shape, device="cpu").to(mean) * _INITIAL_SPREAD + _INITIAL_LOG_VARIANCE
        self.weight_log_variance = nn.Parameter(start)
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())
        self.prior = prior

    def extra_repr(self) -> str:
        return f"weight={tuple(self.weight_mean.shape)}, bias={self.bias is not None}, prior={self.prior}"

    @property
    def log_variance(self) -> Tensor:
        # Not `clamp`: its gradient takes four passes over the weights, that of `hardtanh` one.
        return F.hardtanh(self.weight_log_variance, -_LOG_VARIANCE_LIMIT, _LOG_VARIANCE_LIMIT)

    def kl(self) -> Tensor:
        return self.prior.kl(self.weight_mean, self.log_variance)

    def drawn_weight(self) -> Tensor:
        """w = μ + σ ε: one draw, shared by all rows and positions."""
        epsilon = self.noise.normal(tuple(self.weight_mean.shape), self.weight_mean)
        return self.weight_mean + (0.5 * self.log_variance).exp() * epsilon

    def perturbed(self, output_mean: Tensor, output_variance: Tensor) -> Tensor:
        """Local reparameterisation: the output is drawn, not the weights."""
        epsilon = self.noise.normal(tuple(output_mean.shape), output_mean)
        return output_mean + (output_variance + _ROOT_GUARD).sqrt() * epsilon


class MeanFieldLinear(MeanFieldLayer):
    """xμᵀ + b + √(x² (σ²)ᵀ) ε for a matrix of rows; a draw of the weights where rows have positions too.

    Local reparameterisation gives every row its own draw of the weights at the price of one. It is exact
    where the layer is used once an input; over positions or time, which share weights, it would keep the
    marginals only.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        if self.noise.sharing is Sharing.MEAN:
            return F.linear(inputs, self.weight_mean, self.bias)
        if self.noise.sharing is Sharing.SHARED or inputs.dim() != 2:
            return F.linear(inputs, self.drawn_weight(), self.bias)
        epsilon = self.noise.normal((len(inputs), len(self.weight_mean)), self.weight_mean)
        law = self.weight_mean, self.weight_log_variance, self.bias
        kls, prior = self.noise.kls, self.prior
        if kls is None or not isinstance(prior, NormalPrior):
            return local_linear(inputs, *law, epsilon, _LOG_VARIANCE_LIMIT).output
        output, kls[self] = local_linear(inputs, *law, epsilon, _LOG_VARIANCE_LIMIT, prior.precision)
        return output

    def draws(self, rows: Tensor, count: int) -> Tensor:
        """Draws × rows × outputs, of rows that come once (an axis of 1) or once a draw."""
        normal = partial(self.noise.normal, like=self.weight_mean)
        law = self.weight_mean, self.weight_log_variance, self.bias
        return paired_draws(rows, *law, normal, _LOG_VARIANCE_LIMIT, count)

    @classmethod
    def like(cls, layer: nn.Linear, prior: WeightPrior) -> "MeanFieldLinear":
        """The same function at its mean."""
        return cls(layer.weight, layer.bias, prior)


class MeanFieldConv2d(MeanFieldLayer):
    """A convolution with drawn weights; `local` perturbs the output instead, which keeps only marginals.

    Positions share the weights: their outputs move together, so that the variance of a pooled output is many
    times what independent noise would give. `local` is cheaper and has quieter gradients.
    """

    def __init__(self, layer: nn.Conv2d, prior: WeightPrior, local: bool = False) -> None:
        super().__init__(layer.weight, layer.bias, prior)
        self.stride, self.dilation, self.groups = layer.stride, layer.dilation, layer.groups
        self.padding, self.padding_mode = layer.padding, layer.padding_mode
        self.local = local
        if layer.padding_mode != "zeros":
            raise InputError(
                f"a mean-field convolution pads with zeros, but this layer pads by {layer.padding_mode!r}. "
                "Leave it out of `layers`, or pad before it with nn.functional.pad."
            )

    def forward(self, inputs: Tensor) -> Tensor:
        if self.noise.sharing is Sharing.MEAN:
            return self._convolve(inputs, self.weight_mean, self.bias)
        if self.noise.sharing is Sharing.SHARED or not self.local:
            return self._convolve(inputs, self.drawn_weight(), self.bias)
        output_mean = self._convolve(inputs, self.weight_mean, self.bias)
        return self.perturbed(output_mean, self._convolve(inputs.square(), self.log_variance.exp(), None))

    def _convolve(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.conv2d(inputs, weight, bias, self.stride, self.padding, self.dilation, self.groups)


def mean_field(
    module: nn.Module,
    layers: Layers = "linear",
    prior: WeightPrior | None = None,
    local_convolutions: bool = False,
) -> nn.Module:
    """A copy of `module` whose chosen layers are mean-field; trained weights are kept as means.

    `layers` is "linear" (all fully connected ones), "all" (convolutions too), "none", or names as in
    `module.named_modules()`. A layer that the module has in several places stays one layer.
    """
    chosen = _chosen_names(module, layers)
    result, law = copy.deepcopy(module), prior or NormalPrior()
    if "" in chosen:
        return _converted(result, law, local_convolutions)
    points = [result.get_submodule(name) for name in chosen]
    laws = {point: _converted(point, law, local_convolutions) for point in points}
    for name, layer in list(result.named_modules(remove_duplicate=False)):
        if layer in laws:
            parent, _, child = name.rpartition(".")
            setattr(result.get_submodule(parent), child, laws[layer])
    return result


def weight_kl(module: nn.Module, known: WeightKLs | None = None) -> Tensor:
    """KL(q(w) ‖ p(w)) of all stochastic layers inside of `module`, in nats; 0 where weights are points.

    `known` are KLs that a pass has worked out already.
    """
    given = known or {}
    kls = [given[layer] if layer in given else layer.kl() for layer in stochastic_layers(module)]
    return torch.stack(kls).sum() if kls else torch.zeros(())


def _chosen_names(module: nn.Module, layers: Layers) -> list[str]:
    kinds = {"linear": (nn.Linear,), "all": (nn.Linear, nn.Conv2d), "none": ()}
    convertible = {name: m for name, m in module.named_modules() if isinstance(m, kinds["all"])}
    if isinstance(layers, str):
        if layers not in kinds:
            raise UnknownNameError("choice of layers", layers, kinds)
        return [name for name, layer in convertible.items() if isinstance(layer, kinds[layers])]
    names = list(layers)
    for name in names:
        if name not in convertible:
            raise UnknownNameError("linear or convolutional layer", name, convertible)
    return names


def _converted(layer: nn.Module, prior: WeightPrior, local_convolutions: bool) -> nn.Module:
    if isinstance(layer, nn.Linear):
        return MeanFieldLinear.like(layer, prior)
    assert isinstance(layer, nn.Conv2d)
    return MeanFieldConv2d(layer, prior, local_convolutions)
