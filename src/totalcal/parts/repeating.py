"""A backbone with several draws of its weights: how, is chosen once for a net as it is made, and kept."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from totalcal.inputs import Inputs, call, parts_of
from totalcal.parts.sampling import MEANS, SeedNoise, StochasticLayer, sampling, stochastic_layers
from totalcal.parts.weights import MeanFieldLinear

_MOST_KEPT, _MOST_KEPT_DRAWS = 2**24, 64  # numbers: 64 MB


class PassAtMeans(NamedTuple):
    """What a pass at mean weights leaves for one that is random.

    Attributes:
        embedding: Rows × outputs.
        hidden: What goes into the first layer that draws, or into the net, where that is not known.
    """

    embedding: Tensor
    hidden: Inputs


class ExecutionPlan:
    """How to run a net in evaluation mode, without gradients.

    One pass gives all draws where no weight has a distribution. In a row of layers those before the first
    that draws run once, for the draws and for a pass at means. The rest runs with all draws side by side
    (vmap), or draw by draw if vmap refuses it, as it does control flow that depends on what is drawn: the
    first prediction finds out.

    Attributes:
        layers: Those whose weights have a distribution.
        drawing: The net from the first of them on; all of it where that is not known.
    """

    def __init__(self, net: nn.Module) -> None:
        self.structure = structure(net)
        self.layers = stochastic_layers(net)
        self.fixed, self.drawing = _split(net)
        self.first, self.rest = _first(self.drawing)
        self.is_parallel: bool | None = None
        self.uses_are_known = not self.layers
        self._noise: SeedNoise | None = None
        self.is_quiet = False

    def noise(self, draws: int, seed: int) -> SeedNoise:
        """The noise of a seed; that of the last one is kept, as far as it is not large."""
        kept = self._noise
        if kept is None or (kept.count, kept.seed) != (draws, seed):
            kept = SeedNoise(draws, seed)
            numbers = draws * sum(layer.noise_like.numel() for layer in self.layers)
            if numbers <= _MOST_KEPT and draws <= _MOST_KEPT_DRAWS:
                self._noise = kept
        return kept.again()

    def at_means(self, inputs: Inputs) -> PassAtMeans:
        """One pass at mean weights."""
        with sampling(MEANS):
            hidden = self.before(inputs)
            return PassAtMeans(call(self.drawing, hidden), hidden)

    def before(self, inputs: Inputs) -> Inputs:
        """What goes into `drawing`."""
        return inputs if self.fixed is None else self.fixed(inputs)

    def drawn(self, hidden: Inputs, noise: SeedNoise) -> Tensor:
        """v_w(x), draws × rows × outputs, of what goes into `drawing`; one draw where weights are points."""
        if not self.layers:
            return call(self.drawing, hidden).unsqueeze(0)
        blocks = [self._run(hidden, noise, epsilons) for epsilons in noise.of_layers(self.layers)]
        sides = zip(*(block.chunk(2 if noise.is_paired else 1) for block in blocks), strict=True)
        return torch.cat([part for side in sides for part in side])[: noise.count]

    @torch.no_grad()
    def learn_uses(self, inputs: Inputs) -> None:
        """Find out which layers one pass uses several times; nothing is left of the pass."""
        with torch.random.fork_rng(devices=[]), sampling(MEANS) as running:
            call(self.drawing, self.before(inputs))
        for layer in self.layers:
            layer.is_reused = running.uses[layer] > 1
        self.uses_are_known = True

    def _run(self, hidden: Inputs, noise: SeedNoise, epsilons: list[Tensor]) -> Tensor:
        layers, given = self.layers, epsilons
        if self.first is not None and isinstance(hidden, Tensor):
            layers = [layer for layer in layers if layer is not self.first]
            own = dict(zip(self.layers, epsilons, strict=True))
            outputs = self.first.drawn_outputs(hidden, own[self.first], noise.is_paired)
            given = [outputs, *(own[layer] for layer in layers)]

        def once(*of_draw: Tensor) -> Tensor:
            rows, of_layers = (hidden, of_draw) if layers is self.layers else (of_draw[0], of_draw[1:])
            with sampling(noise, dict(zip(layers, of_layers, strict=True))):
                return call(self.drawing if layers is self.layers else self.rest, rows)

        # In a graph vmap would take the number of rows for a constant.
        may_be_parallel = len(given[0]) > 1 and not torch.compiler.is_compiling()
        if may_be_parallel and self.is_parallel is not False:
            try:
                found: Tensor = torch.vmap(once)(*given)
            except RuntimeError as problem:
                if self.is_parallel or _is_out_of_memory(problem):
                    raise
            else:
                self.is_parallel = True
                return found
        # Each draw gets a tensor of its own: a net may write into it, which a graph of views would not bear.
        found = torch.stack([once(*(part.clone() for part in each)) for each in zip(*given, strict=True)])
        if may_be_parallel:
            self.is_parallel = False
        return found


def structure(net: nn.Module) -> list[object]:
    """What a plan depends on: the modules and their hooks, in order."""
    found: list[object] = []
    for part in parts_of(net):
        found.append(part)
        found += part._forward_hooks
        found += part._forward_pre_hooks
    return found


def links(net: nn.Module) -> list[nn.Module]:
    """The modules that run one after the other, with rows of layers inside of a row taken apart."""
    if type(net) is not nn.Sequential or net._forward_hooks or net._forward_pre_hooks:
        return [net]
    return [link for part in net for link in links(part)]


def has_hooks(module: nn.Module) -> bool:
    """Whether hooks would miss something; those of taps look at the pass at means alone."""
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    return not all(getattr(hook, "only_looks", False) for hook in hooks)


def _split(net: nn.Module) -> tuple[nn.Module | None, nn.Module]:
    """What a row of layers does before the first that draws, and the rest; nothing and all of other nets."""
    row = links(net)
    first = next((place for place, link in enumerate(row) if stochastic_layers(link)), 0)
    if first and isinstance(row[first], StochasticLayer) and all(map(_is_known, row[:first])):
        return nn.Sequential(*row[:first]), nn.Sequential(*row[first:])
    return None, net


def _first(drawing: nn.Module) -> tuple[MeanFieldLinear | None, nn.Module]:
    """The layer that a row of layers begins with, if it draws and is used once, and what comes behind it."""
    if type(drawing) is not nn.Sequential or len(drawing) == 0:
        return None, drawing
    first, *others = drawing
    rest = nn.Sequential(*others)
    if not isinstance(first, MeanFieldLinear) or first in stochastic_layers(rest):
        return None, drawing
    return (None, drawing) if has_hooks(first) or has_hooks(drawing) else (first, rest)


def _is_known(link: nn.Module) -> bool:
    """The layers of torch have no randomness in evaluation mode, but for one; who knows of a user's own."""
    return all(
        type(part).__module__.startswith(("torch.nn.modules.", "totalcal."))
        and not isinstance(part, nn.FractionalMaxPool2d | nn.FractionalMaxPool3d)
        for part in link.modules()
    )


def _is_out_of_memory(problem: RuntimeError) -> bool:
    return isinstance(problem, torch.OutOfMemoryError) or "memory" in str(problem)
