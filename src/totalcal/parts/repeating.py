"""A backbone with several draws of its weights, by the cheapest way that its structure allows."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from totalcal.inputs import Inputs, call, device
from totalcal.parts.sampling import (
    Noise,
    Sharing,
    StochasticLayer,
    sampling,
    stochastic_layers,
    with_uses_known,
)
from totalcal.parts.taps import Collector, collecting
from totalcal.parts.weights import MeanFieldLinear

_ROW_BY_ROW = (
    *(nn.Identity, nn.Linear, nn.LayerNorm, nn.Dropout, nn.AlphaDropout),
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish),
    *(nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish),
)
_BATCH_NORMS = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d


def repeated(backbone: nn.Module, inputs: Inputs, draws: int, noise: Noise) -> Tensor:
    """v_w(x), draws × rows × outputs; one draw where weights are points or means. Without gradients.

    For a backbone in evaluation mode. What comes before the first stochastic layer runs once. Layers in a row
    of which the linear ones draw see all draws as rows of one matrix; vmap does it for other shapes of nets;
    what cannot be vmapped (control flow that depends on data) is run draw by draw. However it is done, draws
    are paired if `noise` says so.
    """
    if noise.sharing is Sharing.MEAN or not stochastic_layers(backbone):
        with sampling(noise):
            return call(backbone, inputs).unsqueeze(0)
    return with_uses_known(backbone, noise, lambda: _drawn(backbone, inputs, draws, noise))


def _drawn(backbone: nn.Module, inputs: Inputs, draws: int, noise: Noise) -> Tensor:
    may_draw_rows = (noise.paired or draws == 1) and noise.sharing is Sharing.ROWS
    if may_draw_rows and isinstance(inputs, Tensor) and _is_chain(backbone):
        with sampling(noise):
            drawn = _along_chain(backbone, inputs, draws)
        if drawn is not None:
            return drawn
    before = None if noise.generator is None else noise.generator.get_state()
    try:
        return _by_vmap(lambda: call(backbone, inputs), draws, noise, device(inputs))
    except RuntimeError:
        if noise.generator is not None and before is not None:
            noise.generator.set_state(before)
        return _one_by_one(lambda: call(backbone, inputs), draws, noise)


def repeated_and_mean(
    backbone: nn.Module, inputs: Inputs, draws: int, noise: Noise, collector: Collector
) -> tuple[Tensor, Tensor | None]:
    """`repeated`, and the same at mean weights, 1 × rows × outputs, for the collector to look at.

    None if there is nothing to collect. The draws are those that `repeated` alone would make. In a row of
    layers the pass at means shares what comes before the first that draws; other nets run once more.
    """
    if not collector.taps:
        return repeated(backbone, inputs, draws, noise), None
    is_mean = noise.sharing is Sharing.MEAN or not stochastic_layers(backbone)
    is_whole = is_mean or not isinstance(inputs, Tensor)
    fixed, drawing = (nn.Sequential(), backbone) if is_whole else _split(backbone)
    with collecting(collector):
        hidden = fixed(inputs)
        mean = repeated(drawing, hidden, 1, Noise(sharing=Sharing.MEAN))
    return mean if is_mean else repeated(drawing, hidden, draws, noise), mean


def _split(backbone: nn.Module) -> tuple[nn.Module, nn.Module]:
    """What a row of layers does before the first that draws, and the rest; nothing and all of other nets."""
    if type(backbone) is nn.Sequential and not has_hooks(backbone):
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
    """Whether no row of a matrix minds the others: batch statistics would mix draws."""
    if isinstance(link, _BATCH_NORMS):
        return link.running_mean is not None and not link.training
    return isinstance(link, MeanFieldLinear) or type(link) in _ROW_BY_ROW


def has_hooks(module: nn.Module) -> bool:
    """Whether hooks would miss something; those of taps look at the pass at means alone."""
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    return not all(getattr(hook, "only_looks", False) for hook in hooks)


def _along_chain(backbone: nn.Module, inputs: Tensor, draws: int) -> Tensor | None:
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
        hidden, is_drawn = link.draws(rows, draws).flatten(0, 1), True
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
