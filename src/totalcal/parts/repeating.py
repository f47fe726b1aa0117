"""A backbone with several draws of its weights, by the cheapest way that its structure allows."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from totalcal.parts.sampling import Noise, Sharing, sampling, stochastic_layers
from totalcal.parts.taps import Collector, collecting
from totalcal.parts.weights import MeanFieldLinear


def repeated(backbone: nn.Module, inputs: Tensor, draws: int, noise: Noise) -> Tensor:
    """v_w(x), draws × rows × outputs; one draw where weights are points or means. Without gradients.

    What comes before the first stochastic layer runs once. Layers in a row of which the linear ones draw see
    all draws as rows of one matrix; vmap does it for other shapes of nets; what cannot be vmapped (batch
    normalisation in training mode, control flow that depends on data) is run draw by draw.
    """
    with sampling(backbone, noise):
        if noise.sharing is Sharing.MEAN or not stochastic_layers(backbone):
            output: Tensor = backbone(inputs)
            return output.unsqueeze(0)
        drawn = _along_chain(backbone, inputs, draws) if noise.sharing is Sharing.ROWS else None
        if drawn is not None:
            return drawn
        return _by_vmap(lambda: backbone(inputs), draws, noise.generator)


def repeated_and_mean(
    backbone: nn.Module, inputs: Tensor, draws: int, noise: Noise, collector: Collector
) -> tuple[Tensor, Tensor | None]:
    """`repeated`, and the same at mean weights, 1 × rows × outputs, for the collector to look at.

    None if there is nothing to collect.
    """
    if not collector.taps:
        return repeated(backbone, inputs, draws, noise), None
    with collecting(collector):
        mean = repeated(backbone, inputs, 1, Noise(sharing=Sharing.MEAN))
    if noise.sharing is Sharing.MEAN or not stochastic_layers(backbone):
        return mean, mean
    return repeated(backbone, inputs, draws, noise), mean


def _along_chain(backbone: nn.Module, inputs: Tensor, draws: int) -> Tensor | None:
    """Rows become draws × rows at the first layer that draws. None where that would not be right."""
    if not isinstance(backbone, nn.Sequential) or not _is_chain(backbone) or inputs.device.type != "cpu":
        return None
    hidden, is_drawn, before = inputs, False, torch.get_rng_state()
    for link in backbone:  # not `children`: it names a layer that is used twice once
        if not isinstance(link, MeanFieldLinear):
            hidden = link(hidden)
            continue
        if hidden.dim() != 2:
            return None  # positions share a draw of the weights
        if not is_drawn and not torch.equal(torch.get_rng_state(), before):
            return None  # a layer with randomness of its own drew once, and must for every draw
        rows = hidden.unflatten(0, (draws if is_drawn else 1, -1))
        hidden, is_drawn = link.draws(rows, draws).flatten(0, 1), True
    return torch.unflatten(hidden, 0, (draws, -1))


def _is_chain(backbone: nn.Sequential) -> bool:
    """Whether layers run one after the other, row by row, and all that draw are links of the chain."""
    if type(backbone) is not nn.Sequential or any(map(_looks_at_all_rows, backbone.modules())):
        return False
    if any(map(_has_hooks, [backbone, *stochastic_layers(backbone)])):
        return False  # they are called by a pass of the module itself only
    return all(isinstance(link, MeanFieldLinear) or not stochastic_layers(link) for link in backbone)


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _looks_at_all_rows(module: nn.Module) -> bool:
    return module.training and isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)


def _by_vmap(once: Callable[[], Tensor], draws: int, generator: torch.Generator | None) -> Tensor:
    before = None if generator is None else generator.get_state()
    try:
        return torch.vmap(lambda _: once(), randomness="different")(torch.empty(draws))
    except RuntimeError:
        if generator is not None and before is not None:
            generator.set_state(before)
        return torch.stack([once() for _ in range(draws)])
