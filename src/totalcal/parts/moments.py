"""One pass instead of draws: moments go through a net, and a few fixed points stand for what they say.

    embedding = embedding_points(backbone, inputs)  # v_s, points × rows × classes
    readout = readout_points(latent, embedding, context)  # a_s

What comes before the first layer with a distribution runs as it is, whatever it is. After it each layer needs
a rule, by its type: `moment_rule` adds one. Modules without a rule are taken apart (torch.fx) until their
layers have one; where that fails, `NoMomentRuleError` names the layer.

Entries are treated as independent of each other, but for the last linear layer, whose outputs' covariance is
kept. For a chain of linear layers with ReLU between them nothing else is lost up to the second hidden layer:
given its inputs, the outputs of a mean-field linear layer are independent. Weights that are shared by
positions (convolutions, sequences) move their outputs together, which independent entries cannot show.
"""

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from totalcal.errors import TotalcalError
from totalcal.functional import moments
from totalcal.functional.cells import read_along
from totalcal.functional.gaussian import HALVES, at_least_single
from totalcal.functional.moments import Moments, Value, gaussian_points, pairs_for
from totalcal.inputs import Inputs, by_class, call
from totalcal.parts.kept import Kept
from totalcal.parts.latents import ExternalMemory, IdentityKeys, Latent, LinearKeys
from totalcal.parts.pooling import QuickMaxPool2d
from totalcal.parts.repeating import has_hooks, links
from totalcal.parts.sampling import AtMeans, SeedNoise, StochasticLayer
from totalcal.parts.weights import MeanFieldConv2d, MeanFieldLayer, MeanFieldLinear
from totalcal.types import Batch

MomentRule = Callable[[Any, Moments], Moments]

_RELATIVE_JITTER, _ABSOLUTE_JITTER = 1e-6, 1e-12  # a covariance may be singular, and is rounded
_NEVER_LARGEST = -1e6  # in the place of −∞, whose products with 0 are no numbers
_RULES: dict[type[nn.Module], MomentRule] = {}
_GRAPHS: "WeakKeyDictionary[nn.Module, fx.Graph]" = WeakKeyDictionary()
_VARIANCES: "WeakKeyDictionary[nn.Module, Kept[Tensor]]" = WeakKeyDictionary()


class NoMomentRuleError(TotalcalError):
    """Nobody has said how means and variances go through a layer."""

    def __init__(self, layer: nn.Module, reason: str) -> None:
        self.layer, self.reason = layer, reason
        super().__init__(
            f"there is no rule for the moments of {type(layer).__name__}: {reason}. "
            "Use draws, or add a rule with totalcal.parts.moments.moment_rule."
        )


def moment_rule(*layers: type[nn.Module]) -> Callable[[MomentRule], MomentRule]:
    """Teach how the mean and the variance of a layer's output follow from those of its input.

    >>> class Double(nn.Module):
    ...     def forward(self, inputs):
    ...         return 2 * inputs
    >>> @moment_rule(Double)
    ... def through_double(layer, inputs):
    ...     return Moments(2 * inputs.mean, 4 * inputs.variance)
    """

    def add(rule: MomentRule) -> MomentRule:
        _RULES.update(dict.fromkeys(layers, rule))
        return rule

    return add


def embedding_points(net: nn.Module, inputs: Inputs) -> Tensor:
    """v_s: points × rows × classes that stand for the distribution of v_w(x); one where nothing is random.

    Raises:
        NoMomentRuleError: A layer after the first with a distribution has no rule.
    """
    if not _is_random(net):
        return by_class(call(net, inputs)).unsqueeze(0)
    if not isinstance(inputs, Tensor):
        raise NoMomentRuleError(net, "it takes several tensors")
    embedding, factor = _embedding(net, inputs)
    if embedding.dim() == 1:  # one logit, squeezed
        embedding, factor = embedding.unsqueeze(-1), None if factor is None else factor.unsqueeze(-1)
    if factor is None:
        placed = embedding.unsqueeze(0)
    else:
        classes = embedding.shape[-1]
        points = gaussian_points(classes, pairs_for(classes), like=embedding)
        if factor.dim() == embedding.dim():
            placed = embedding + factor * points.unsqueeze(1)
        else:
            moved = points @ factor.flatten(0, 1).mT  # [points, rows · classes]: one product, not one per row
            placed = embedding + moved.unflatten(1, embedding.shape)
    placed = placed if placed.shape[-1] > 1 else by_class(placed.flatten()).unflatten(0, placed.shape[:2])
    return placed.to(inputs.dtype) if inputs.dtype in HALVES else placed


def readout_points(latent: Latent, embedding: Tensor, context: Batch | None) -> Tensor:
    """a_s: points × rows × width, for the points v_s of an embedding.

    An external memory with one head is read by `functional.cells.read_along`, from points for what its
    noise does to a readout. Any other latent draws with one fixed noise for all rows, in pairs ± ε.
    """
    classes = embedding.shape[-1]
    pairs = pairs_for(classes)
    keys = _key_weight(latent)
    if keys is None or not isinstance(latent, ExternalMemory):
        return latent.draw(embedding, context, 2 * pairs, SeedNoise(2 * pairs, seed=0))
    queries, cells, keys = map(at_least_single, (embedding, latent.cells, keys))
    along = gaussian_points(len(cells), pairs, queries, seed=1)
    across = gaussian_points(classes, pairs, queries, seed=2)
    readout = read_along(queries, cells, keys, math.sqrt(latent.cell_variance), along, across)
    return readout.to(embedding.dtype)


def propagate(module: nn.Module, value: Value) -> Value:
    """A module's output for inputs that are known, or known by their moments."""
    if not isinstance(value, Moments) and not _is_random(module):
        output: Tensor = module(value)
        return output
    if has_hooks(module):
        raise NoMomentRuleError(module, "it has hooks, which a rule would not call")
    if isinstance(module, MeanFieldLayer | nn.Linear | nn.Conv2d):
        known = value if isinstance(value, Moments) else at_least_single(value)
        return moments.linear(known, _weight(module), _bias(module), _product(module))
    if type(module) is nn.Sequential:
        for link in module:
            value = propagate(link, value)
        return value
    if type(module) in _RULES:
        return _RULES[type(module)](module, _as_moments(value))
    return _along_graph(module, value)


def _embedding(net: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
    """The mean, and deviations; a factor of the covariance where the last layer is linear with few outputs.

    Its outputs share their inputs, so that they move together.
    """
    *before, last = links(net)
    value: Value = inputs
    for module in before:
        value = propagate(module, value)
    if isinstance(value, Moments) and isinstance(last, MeanFieldLinear | nn.Linear) and not has_hooks(last):
        weight = _weight(last)
        classes = len(weight.mean if isinstance(weight, Moments) else weight)
        if pairs_for(classes) >= classes:  # enough points to show a covariance
            mean = moments.linear(value.mean, weight, _bias(last)).mean
            return mean, _root(moments.covariance_of_linear(value, weight))
    final = propagate(last, value)
    if not isinstance(final, Moments):
        return final, None
    return final.mean, (final.variance + _ABSOLUTE_JITTER).sqrt()


def _key_weight(latent: Latent) -> Tensor | None:
    """A, where keys are A z + b."""
    if not isinstance(latent, ExternalMemory):
        return None
    if isinstance(latent.key_map, IdentityKeys):
        return torch.eye(latent.width, dtype=latent.cells.dtype, device=latent.cells.device)
    if isinstance(latent.key_map, LinearKeys):
        return latent.key_map.linear.weight
    return None


def _root(covariance: Tensor) -> Tensor:
    """A lower triangle L with L Lᵀ = Cov."""
    diagonal = covariance.diagonal(dim1=-2, dim2=-1)
    jitter = _RELATIVE_JITTER * diagonal.mean(-1, keepdim=True) + _ABSOLUTE_JITTER
    positive = covariance + torch.diag_embed(jitter.expand_as(diagonal))
    if torch.compiler.is_exporting():  # ONNX has no factorisation of its own
        return moments.cholesky(positive)
    root: Tensor = torch.linalg.cholesky_ex(positive).L
    return root


def _weight(layer: MeanFieldLayer | nn.Linear | nn.Conv2d) -> Value:
    if isinstance(layer, MeanFieldLayer):
        kept = _VARIANCES.setdefault(layer, Kept())
        log_variance = layer.weight_log_variance
        return Moments(
            layer.weight_mean, kept.of("variance", [log_variance], lambda: layer.log_variance.exp_())
        )
    return at_least_single(layer.weight)


def _bias(layer: MeanFieldLayer | nn.Linear | nn.Conv2d) -> Tensor | None:
    return None if layer.bias is None else at_least_single(layer.bias)


def _product(layer: nn.Module) -> moments.Product:
    if isinstance(layer, MeanFieldLinear | nn.Linear):
        return F.linear
    if not isinstance(layer, MeanFieldConv2d | nn.Conv2d) or layer.padding_mode != "zeros":
        raise NoMomentRuleError(layer, "only linear layers and convolutions that pad with zeros are known")
    return partial(
        F.conv2d, stride=layer.stride, padding=layer.padding, dilation=layer.dilation, groups=layer.groups
    )


def _as_moments(value: Value) -> Moments:
    return value if isinstance(value, Moments) else Moments(value, torch.zeros_like(value))


def _is_random(module: nn.Module) -> bool:
    if isinstance(module, AtMeans):
        return False
    if isinstance(module, StochasticLayer) or _is_dropping(module):
        return True
    return any(map(_is_random, module.children()))


def _is_dropping(module: nn.Module) -> bool:
    return module.training and isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0


# The rules of layers, and of functions where a module is taken apart


@moment_rule(nn.Identity)
def _identity(layer: nn.Identity, inputs: Moments) -> Moments:
    return inputs


@moment_rule(AtMeans)
def _at_means(layer: AtMeans, inputs: Moments) -> Moments:
    raise NoMomentRuleError(layer, "means were asked for behind a layer that draws")


@moment_rule(nn.Flatten)
def _flatten(layer: nn.Module, inputs: Moments) -> Moments:
    return Moments(layer(inputs.mean), layer(inputs.variance))


@moment_rule(nn.ReLU)
def _relu(layer: nn.ReLU, inputs: Moments) -> Moments:
    return moments.relu(inputs)


@moment_rule(nn.GELU)
def _gelu(layer: nn.GELU, inputs: Moments) -> Moments:
    return moments.gelu(inputs) if layer.approximate == "none" else moments.pointwise(layer, inputs)


@moment_rule(nn.Tanh, nn.Sigmoid, nn.SiLU, nn.Softplus)
def _smooth(layer: nn.Module, inputs: Moments) -> Moments:
    return moments.pointwise(layer, inputs)


@moment_rule(nn.Dropout)
def _dropout(layer: nn.Dropout, inputs: Moments) -> Moments:
    return moments.dropout(inputs, layer.p) if layer.training else inputs


@moment_rule(nn.BatchNorm1d, nn.BatchNorm2d)
def _batch_norm(layer: nn.BatchNorm2d, inputs: Moments) -> Moments:
    if layer.training or layer.running_mean is None or layer.running_var is None:
        raise NoMomentRuleError(layer, "batch normalisation by the batch makes rows depend on each other")
    centre = at_least_single(layer.running_mean)
    scale, shift = (at_least_single(layer.running_var) + layer.eps).rsqrt(), 0.0 * centre
    if layer.affine:
        scale, shift = scale * layer.weight, layer.bias
    shape = (-1, *[1] * (inputs.mean.dim() - 2))
    return moments.affine(inputs, scale.view(shape), (shift - scale * centre).view(shape))


@moment_rule(nn.MaxPool2d, QuickMaxPool2d)
def _max_pool(layer: nn.MaxPool2d, inputs: Moments) -> Moments:
    if layer.ceil_mode or layer.return_indices or _pair(layer.dilation) != (1, 1):
        raise NoMomentRuleError(layer, "pooling with ceil_mode, indices or dilation")
    padding = [side for side in reversed(_pair(layer.padding)) for _ in range(2)]
    padded = F.pad(inputs.mean, padding, value=_NEVER_LARGEST), F.pad(inputs.variance, padding)
    windows = [_windows(part, _pair(layer.kernel_size), _pair(layer.stride)) for part in padded]
    return moments.max_pooling(Moments(*windows))


@moment_rule(nn.AvgPool2d)
def _average_pool(layer: nn.AvgPool2d, inputs: Moments) -> Moments:
    if layer.ceil_mode or layer.divisor_override or (_pair(layer.padding) != (0, 0)):
        raise NoMomentRuleError(layer, "average pooling with padding, ceil_mode or a divisor")
    return moments.average(
        Moments(*(_windows(part, _pair(layer.kernel_size), _pair(layer.stride)) for part in inputs))
    )


@moment_rule(nn.AdaptiveAvgPool2d)
def _adaptive_average_pool(layer: nn.AdaptiveAvgPool2d, inputs: Moments) -> Moments:
    if _pair(layer.output_size) != (1, 1):
        raise NoMomentRuleError(layer, "adaptive pooling to more than one position")
    pooled = moments.average(Moments(inputs.mean.flatten(-2), inputs.variance.flatten(-2)))
    return Moments(pooled.mean[..., None, None], pooled.variance[..., None, None])


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _windows(images: Tensor, kernel: tuple[int, int], stride: tuple[int, int]) -> Tensor:
    """[..., rows, columns, entries of a window]."""
    return images.unfold(-2, kernel[0], stride[0]).unfold(-2, kernel[1], stride[1]).flatten(-2)


def _sum(first: Any, second: Any) -> Moments:
    if isinstance(first, Moments) and isinstance(second, Moments):
        return moments.total(first, second)
    known, random = (second, first) if isinstance(first, Moments) else (first, second)
    return Moments(random.mean + known, random.variance + torch.zeros_like(random.mean + known))


_FUNCTIONS: dict[Any, Callable[..., Moments]] = {
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), _sum),
    **dict.fromkeys((F.relu, torch.relu, "relu", "relu_"), lambda inputs, **_: moments.relu(inputs)),
    F.gelu: moments.gelu,
    **dict.fromkeys((F.tanh, torch.tanh, "tanh"), moments.tanh),
}
_SHAPES = (torch.flatten, "flatten", "view", "reshape", "unsqueeze", "squeeze", "transpose", "permute")
_QUESTIONS = ("size", "dim")


class _Tracer(fx.Tracer):
    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        is_known = type(module) in _RULES or isinstance(module, StochasticLayer)
        return is_known or super().is_leaf_module(module, name)


def _along_graph(module: nn.Module, value: Value) -> Value:
    """A module without a rule, step by step through its own forward."""
    values: dict[fx.Node, Any] = {}
    for node in _graph(module).nodes:
        arguments = fx.map_arg(node.args, values.__getitem__)
        keywords = fx.map_arg(node.kwargs, values.__getitem__)
        match node.op:
            case "placeholder":
                values[node] = value if not values else next(iter(arguments), None)
            case "get_attr":
                values[node] = operator.attrgetter(node.target)(module)
            case "call_module":
                values[node] = propagate(module.get_submodule(node.target), *arguments)
            case "output":
                return arguments[0]  # type: ignore[no-any-return]
            case _:
                values[node] = _called(module, node.target, arguments, keywords)
    raise AssertionError("a graph ends with its output")


def _called(module: nn.Module, function: Any, arguments: Any, keywords: Any) -> Any:
    """A function or a method, of moments where one of its arguments is known by them."""

    def plain(*given: Any) -> Any:
        call = getattr(torch.Tensor, function) if isinstance(function, str) else function
        return call(*given, **keywords)

    if not any(isinstance(argument, Moments) for argument in [*arguments, *keywords.values()]):
        return plain(*arguments)
    if function in _FUNCTIONS:
        return _FUNCTIONS[function](*arguments, **keywords)
    first, *rest = arguments
    if function in _SHAPES and isinstance(first, Moments):
        return Moments(*(plain(part, *rest) for part in first))
    if function in _QUESTIONS and isinstance(first, Moments):
        return plain(first.mean, *rest)
    name = function if isinstance(function, str) else function.__name__
    raise NoMomentRuleError(module, f"its forward calls {name}")


def _graph(module: nn.Module) -> fx.Graph:
    if module not in _GRAPHS:
        if not list(module.children()):
            raise NoMomentRuleError(module, "it has no rule, and no layers of its own")
        try:
            _GRAPHS[module] = _Tracer().trace(module)
        except Exception as problem:  # whatever a forward that looks at its values does to a tracer
            raise NoMomentRuleError(module, f"its forward cannot be traced ({problem})") from problem
    return _GRAPHS[module]
