"""A backbone with several draws of its weights, by the cheapest way that its structure allows."""

from collections.abc import Callable
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor, nn

from totalcal.errors import InputError
from totalcal.inputs import Inputs, call, device
from totalcal.memory.features import Collector, collecting
from totalcal.parts.sampling import (
    FixedDraws,
    Noise,
    Sharing,
    StochasticLayer,
    running_pass,
    sampling,
    stochastic_layers,
    with_uses_known,
)
from totalcal.parts.weights import MeanFieldLayer, MeanFieldLinear

_ROW_BY_ROW = (
    *(nn.Identity, nn.Linear, nn.LayerNorm, nn.Dropout, nn.AlphaDropout),
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish),
    *(nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish),
)
_BATCH_NORMS = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d


def repeated(
    backbone: nn.Module, inputs: Inputs, draws: int, noise: Noise, first_mean: Tensor | None = None
) -> Tensor:
    """v_w(x), draws × rows × outputs; one draw where weights are points or means. Without gradients.

    For a backbone in evaluation mode. What comes before the first stochastic layer runs once. Layers in a row
    of which the linear ones draw see all draws as rows of one matrix; vmap does it for other shapes of nets;
    what cannot be vmapped (control flow that depends on data) is run draw by draw. However it is done, draws
    are paired if `noise` says so. `first_mean` is what the first layer gives at mean weights, where that is
    known.
    """
    if noise.sharing is Sharing.MEAN or not stochastic_layers(backbone):
        with sampling(noise):
            return call(backbone, inputs).unsqueeze(0)
    if noise.fixed is not None:
        return _with_weights(backbone, inputs, noise.fixed)
    return with_uses_known(backbone, noise, lambda: _drawn(backbone, inputs, draws, noise, first_mean))


def fixed_draws(backbone: nn.Module, inputs: Inputs, draws: int, noise: Noise, seed: int) -> FixedDraws:
    """The draws that `repeated` would make of this noise, which all rows share: weights, and what comes next.

    `inputs` are any rows: they show in which order the layers draw.
    """
    layers = [layer for layer in stochastic_layers(backbone) if isinstance(layer, MeanFieldLayer)]
    if len(layers) < len(stochastic_layers(backbone)):
        raise InputError("only the draws of mean-field layers can be fixed, but other layers draw, too.")
    if noise.sharing is Sharing.MEAN or not layers:
        return FixedDraws(draws, seed, [], noise.generator)

    def weights_in_a_row() -> Tensor:
        call(backbone, inputs)
        running = running_pass()
        assert running is not None
        return torch.cat([running.weights.get(layer, layer.weight_mean).flatten() for layer in layers])

    drawn = _repeated_call(weights_in_a_row, draws, noise, device(inputs))
    shapes = [layer.weight_mean.shape for layer in layers]
    rows = [row.split([shape.numel() for shape in shapes]) for row in drawn]
    weights: list[dict[StochasticLayer, Tensor]] = [
        {layer: part.view(shape).clone() for layer, part, shape in zip(layers, row, shapes, strict=True)}
        for row in rows
    ]
    return FixedDraws(draws, seed, weights, noise.generator)


def _with_weights(backbone: nn.Module, inputs: Inputs, draws: FixedDraws) -> Tensor:
    """Draw by draw: in an export vmap takes the number of rows for a constant."""
    fixed, drawing = _split(backbone) if isinstance(inputs, Tensor) else (nn.Sequential(), backbone)
    hidden = fixed(inputs)
    outputs = []
    for weights in draws.weights:
        with sampling(Noise(sharing=Sharing.SHARED)) as running:
            running.weights.update(weights)
            outputs.append(call(drawing, hidden))
    return torch.stack(outputs)


def _drawn(
    backbone: nn.Module, inputs: Inputs, draws: int, noise: Noise, first_mean: Tensor | None
) -> Tensor:
    may_draw_rows = (noise.paired or draws == 1) and noise.sharing is Sharing.ROWS
    if may_draw_rows and isinstance(inputs, Tensor) and _is_chain(backbone):
        with sampling(noise):
            drawn = _along_chain(backbone, inputs, draws, first_mean)
        if drawn is not None:
            return drawn
    return _repeated_call(lambda: call(backbone, inputs), draws, noise, device(inputs))


def _repeated_call(once: Callable[[], Tensor], draws: int, noise: Noise, where: torch.device) -> Tensor:
    before = None if noise.generator is None else noise.generator.get_state()
    try:
        return _by_vmap(once, draws, noise, where)
    except RuntimeError:
        if noise.generator is not None and before is not None:
            noise.generator.set_state(before)
        return _one_by_one(once, draws, noise)


def repeated_and_mean(
    backbone: nn.Module, inputs: Inputs, draws: int, noise: Noise, collector: Collector
) -> tuple[Tensor, Tensor | None]:
    """`repeated`, and the same at mean weights, 1 × rows × outputs, for the collector to look at.

    None if there is nothing to collect. The draws are those that `repeated` alone would make.
    """
    if not collector.taps:
        return repeated(backbone, inputs, draws, noise), None
    at_means = passed_at_means(backbone, inputs, collector)
    if noise.sharing is Sharing.MEAN or not stochastic_layers(backbone):
        return at_means.embedding, at_means.embedding
    return repeated(at_means.drawing, at_means.hidden, draws, noise, at_means.first), at_means.embedding


class PassAtMeans(NamedTuple):
    """What a pass at mean weights leaves for one that is random.

    Attributes:
        embedding: 1 × rows × outputs.
        drawing: The part of the net from the first layer that draws on; all of it, where that is not known.
        hidden: What goes into that part.
        first: What its first layer gives at mean weights; None where it is not known.
    """

    embedding: Tensor
    drawing: nn.Module
    hidden: Inputs
    first: Tensor | None


def passed_at_means(backbone: nn.Module, inputs: Inputs, collector: Collector) -> PassAtMeans:
    """One pass at mean weights, for the collector to look at.

    In a row of layers a random pass can share what comes before the first that draws, and the product of that
    layer's mean weights; other nets run once more.
    """
    fixed, drawing = _split(backbone) if isinstance(inputs, Tensor) else (nn.Sequential(), backbone)
    with collecting(collector), sampling(Noise(sharing=Sharing.MEAN)):
        hidden = fixed(inputs)
        if not _begins_with_a_product(drawing):
            return PassAtMeans(call(drawing, hidden).unsqueeze(0), drawing, hidden, None)
        value = drawing[0](hidden)
        first = value.clone()  # an activation behind it may write over it
        for link in list(drawing)[1:]:
            value = link(value)
    return PassAtMeans(value.unsqueeze(0), drawing, hidden, first)


def _begins_with_a_product(drawing: nn.Module) -> TypeGuard[nn.Sequential]:
    if type(drawing) is not nn.Sequential or drawing._forward_hooks or drawing._forward_pre_hooks:
        return False
    return isinstance(drawing[0], MeanFieldLinear)


def _split(backbone: nn.Module) -> tuple[nn.Sequential, nn.Module]:
    """What a row of layers does before the first that draws, and the rest; nothing and all of other nets."""
    if type(backbone) is nn.Sequential and stochastic_layers(backbone) and not has_hooks(backbone):
        links = list(backbone)
        first = next(index for index, link in enumerate(links) if stochastic_layers(link))
        fixed, drawing = nn.Sequential(*links[:first]), nn.Sequential(*links[first:])
        if isinstance(links[first], StochasticLayer) and all(map(_is_known, fixed.modules())):
            return fixed, drawing
    return nn.Sequential(), backbone


def _is_chain(backbone: nn.Module) -> bool:
    """Whether layers run one after the other, and rows go their own ways from the first one that draws.

    Up to there a layer runs once for all draws: it must have no randomness of its own.
    """
    if type(backbone) is not nn.Sequential or not all(map(_is_known, backbone.modules())):
        return False
    drawing = [link for link in backbone if isinstance(link, MeanFieldLinear)]
    if len(drawing) != len(stochastic_layers(backbone)) or len(drawing) != len(set(drawing)):
        return False  # some are deeper inside, or used twice
    if any(layer.is_reused for layer in drawing) or any(map(has_hooks, [backbone, *drawing])):
        return False  # hooks are called by a pass of the module itself only
    links = list(backbone)
    return all(map(_goes_row_by_row, links[links.index(drawing[0]) :]))


def _is_known(module: nn.Module) -> bool:
    """Those of torch, of which our backbones are made, have no randomness in evaluation mode, but for two."""
    if isinstance(module, nn.FractionalMaxPool2d | nn.FractionalMaxPool3d):
        return False
    homes = "torch.nn.modules.", "totalcal.backbones."
    return isinstance(module, MeanFieldLinear) or type(module).__module__.startswith(homes)


def _goes_row_by_row(link: nn.Module) -> bool:
    """Whether rows of a matrix are independent of each other: batch statistics would mix draws."""
    if isinstance(link, _BATCH_NORMS):
        return link.running_mean is not None and not link.training
    return isinstance(link, MeanFieldLinear) or type(link) in _ROW_BY_ROW


def has_hooks(module: nn.Module) -> bool:
    """Whether hooks would miss something; those of taps look at the pass at means alone."""
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    return not all(getattr(hook, "only_looks", False) for hook in hooks)


def _along_chain(backbone: nn.Module, inputs: Tensor, draws: int, first_mean: Tensor | None) -> Tensor | None:
    """Rows become draws × rows at the first layer that draws. None where positions share a draw."""
    assert isinstance(backbone, nn.Sequential)
    hidden, is_drawn = inputs, False
    for link in backbone:  # not `children`: it names a layer that is used twice once
        if not isinstance(link, MeanFieldLinear):
            hidden = link(hidden)
            continue
        if hidden.dim() != 2:
            return None
        rows = hidden.unflatten(0, (draws if is_drawn else 1, -1))
        mean = first_mean if link is backbone[0] else None
        hidden, is_drawn = link.draws(rows, draws, mean).flatten(0, 1), True
    return torch.unflatten(hidden, 0, (draws, -1))


def _by_vmap(once: Callable[[], Tensor], draws: int, noise: Noise, where: torch.device) -> Tensor:
    def signed(sign: Tensor) -> Tensor:
        with sampling(noise, sign):
            return once()

    def pair(_: Tensor) -> Tensor:
        return torch.vmap(signed, randomness="same")(torch.tensor([1.0, -1.0], device=where))

    def single(_: Tensor) -> Tensor:
        with sampling(noise):
            return once()

    if not noise.paired:
        return torch.vmap(single, randomness="different")(torch.empty(draws))
    pairs = torch.vmap(pair, randomness="different")(torch.empty((draws + 1) // 2))  # [half, 2, rows, …]
    return pairs.transpose(0, 1).flatten(0, 1)[:draws]


def _one_by_one(once: Callable[[], Tensor], draws: int, noise: Noise) -> Tensor:
    outputs, passes = [], []
    for _ in range((draws + 1) // 2 if noise.paired else draws):
        with sampling(noise) as running:
            outputs.append(once())
        passes.append(running)
    for first in passes[: draws - len(passes)]:
        with sampling(noise, mirrored=first):
            outputs.append(once())
    return torch.stack(outputs)
