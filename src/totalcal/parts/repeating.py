"""A backbone with several draws of its weights: how, is chosen once for a net as it is made, and kept."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from totalcal.inputs import Inputs, by_class, call, mapped, taken
from totalcal.parts.kept import Kept
from totalcal.parts.sampling import MEANS, SeedNoise, StochasticLayer, sampling, stochastic_layers
from totalcal.parts.weights import MeanFieldLayer, MeanFieldLinear

_MOST_KEPT, _MOST_KEPT_DRAWS = 2**24, 64  # numbers: 64 MB


class PassAtMeans(NamedTuple):
    """What a pass at mean weights leaves for one that is random.

    Attributes:
        embedding: Rows × outputs.
        hidden: What goes into the first layer that draws, or into the net, where that is not known.
        last: The layer that draws, where it is the only one and gives what the net gives: what it receives
            is `hidden` then.
    """

    embedding: Tensor
    hidden: Inputs
    last: MeanFieldLinear | None = None


class ExecutionPlan:
    """How to run a net in evaluation mode, without gradients.

    One pass gives all draws where no weight has a distribution. In a row of layers those before the first
    that draws run once, for the draws and for a pass at means; in any other net draws share that pass if one
    layer draws and ends it, and the net has no randomness of its own, for which a row is tried twice. The
    rest runs with all draws side by side (vmap) where torch can do that, else draw by draw: control flow that
    depends on what is drawn is beyond vmap. No structure tells, so that two draws of two rows are tried
    before the first prediction.

    Attributes:
        layers: Those whose weights have a distribution.
        drawing: The net from the first of them on; all of it where that is not known.
    """

    def __init__(self, net: nn.Module) -> None:
        self.structure = structure(net)
        self.layers = stochastic_layers(net)
        self.has_hooks = any(map(has_hooks, net.modules()))
        self.fixed, self.drawing = _split(net)
        self.first, self.rest = _first(self.drawing)
        behind = [link for link in self.rest._modules.values() if link is not None]
        self.row = behind if self.first is not None and all(map(_takes_draws, behind)) else None
        self.may_write = not _is_known(net) or any(getattr(part, "inplace", False) for part in net.modules())
        self.is_parallel: bool | None = None
        self.repeats_itself: bool | None = None
        self.uses_are_known = not self.layers
        self._noise: SeedNoise | None = None
        self._drawn = Kept[list[list[Tensor]]]()
        self.is_quiet = False

    def noise(self, draws: int, seed: int) -> SeedNoise:
        """The noise of a seed; that of the last one is kept, of few draws."""
        kept = self._noise
        if kept is None or (kept.count, kept.seed) != (draws, seed):
            kept = SeedNoise(draws, seed)
            if draws <= _MOST_KEPT_DRAWS:
                self._noise = kept
        return kept.again()

    def at_means(self, inputs: Inputs) -> PassAtMeans:
        """One pass at mean weights."""
        if not self.layers:
            return PassAtMeans(by_class(self._called(self.drawing, inputs)), inputs)
        with sampling(MEANS) as running:
            hidden = self.before(inputs)
            output = by_class(self._called(self.drawing, hidden))
        last = running.last
        if not self.repeats_itself or last is None or running.uses[last.layer] > 1 or not last.gave(output):
            return PassAtMeans(output, hidden)
        assert isinstance(last.layer, MeanFieldLinear)
        return PassAtMeans(output, last.inputs, last.layer)

    @torch.no_grad()
    def learn_whether_it_repeats(self, inputs: Inputs) -> None:
        """Find out whether draws may share a pass at means: nets with randomness of their own may not."""
        self.repeats_itself = False
        if len(self.layers) == 1 and self.fixed is None and not self.has_hooks:
            row = taken(inputs, slice(1))
            with torch.random.fork_rng(devices=[]), sampling(MEANS):
                before = torch.get_rng_state()
                one, two = (by_class(self._called(self.drawing, row)) for _ in range(2))
                self.repeats_itself = torch.equal(before, torch.get_rng_state()) and torch.equal(one, two)

    def before(self, inputs: Inputs) -> Inputs:
        """What goes into `drawing`."""
        return inputs if self.fixed is None else self._called(self.fixed, inputs)

    def drawn(self, hidden: Inputs, noise: SeedNoise, last: MeanFieldLinear | None = None) -> Tensor:
        """v_w(x), draws × rows × outputs, of what goes into `drawing`; one draw where weights are points.

        Where a pass at means found the `last` layer to be the one that draws, of what goes into that.
        """
        if not self.layers:
            return by_class(self._called(self.drawing, hidden)).unsqueeze(0)
        first = last if last is not None or not isinstance(hidden, Tensor) else self.first
        blocks = [self._run(hidden, noise, drawn, first, last) for drawn in self._draws(noise, first)]
        sides = zip(*(block.chunk(2 if noise.is_paired else 1) for block in blocks), strict=True)
        return torch.cat([part for side in sides for part in side])[: noise.count]

    def _draws(self, noise: SeedNoise, first: MeanFieldLinear | None) -> Iterable[list[Tensor]]:
        """What draws make of each layer, in blocks: of the first how its weights move, of others the weights,
        of layers of one's own ε. Few of them are kept while seed and weights are the same."""

        def made(epsilons: list[Tensor]) -> list[Tensor]:
            found = []
            for layer, epsilon in zip(self.layers, epsilons, strict=True):
                if first is not None and layer is first:
                    found.append(first.drawn_moves(epsilon.chunk(2)[0] if noise.is_paired else epsilon))
                elif isinstance(layer, MeanFieldLayer):
                    found.append(layer.drawn_weights(epsilon))
                else:
                    found.append(epsilon)
            return found

        numbers = noise.count * sum(layer.noise_like.numel() for layer in self.layers)
        if noise.count > _MOST_KEPT_DRAWS or numbers > _MOST_KEPT or torch.compiler.is_compiling():
            return map(made, noise.of_layers(self.layers))
        weights: list[Tensor] = []
        for layer in self.layers:
            if isinstance(layer, MeanFieldLayer):
                own = layer.weight_mean, layer.weight_log_variance
                weights += own[layer is first :]
        fresh = SeedNoise(noise.count, noise.seed, noise.is_paired)  # what it draws is not kept
        name = noise.count, noise.seed, noise.is_paired, first
        return self._drawn.of(name, weights, lambda: list(map(made, fresh.of_layers(self.layers))))

    @torch.no_grad()
    def learn_uses(self, inputs: Inputs) -> None:
        """Find out which layers one pass uses several times; nothing is left of the pass."""
        with torch.random.fork_rng(devices=[]), sampling(MEANS) as running:
            self._called(self.drawing, self.before(inputs))
        for layer in self.layers:
            layer.is_reused = running.uses.get(layer, 0) > 1
        self.uses_are_known = True

    def _called(self, net: nn.Module, rows: Inputs) -> Tensor:
        """What a part of the net gives; one that may write into its input gets a copy."""
        return call(net, mapped(Tensor.clone, rows) if self.may_write else rows)

    def _run(
        self,
        hidden: Inputs,
        noise: SeedNoise,
        made: list[Tensor],
        first: MeanFieldLinear | None,
        last: MeanFieldLinear | None,
    ) -> Tensor:
        own = dict(zip(self.layers, made, strict=True))
        net, outputs = self.drawing, None
        if first is not None and isinstance(hidden, Tensor):
            net, outputs = self.rest, first.moved_outputs(hidden, own.pop(first), noise.is_paired)
            if last is not None:
                return outputs
            if self.row is not None and outputs.dim() == 3:  # without positions, which share weights
                for link in self.row:
                    if isinstance(link, MeanFieldLinear):
                        outputs = link.outputs_of_draws(outputs, own[link])
                    else:
                        outputs = link(outputs)
                return outputs if outputs.shape[-1] > 1 else torch.stack([*map(by_class, outputs)])
        drawn = list(own.values())
        draws = len(drawn[0]) if outputs is None else len(outputs)

        def once(rows: Inputs, *of_draw: Tensor) -> Tensor:
            given = dict(zip(own, of_draw, strict=True))
            ours: dict[StochasticLayer, Tensor] = {
                layer: each for layer, each in given.items() if isinstance(layer, MeanFieldLayer)
            }
            with sampling(noise, given, ours):
                return by_class(self._called(net, rows))

        def of_draw(draw: int) -> Tensor:
            """Each draw has tensors of its own: a net may write into them."""
            rows = hidden if outputs is None else outputs[draw].clone()
            return once(rows, *(each[draw].clone() for each in drawn))

        side_by_side = torch.vmap(once, (None if outputs is None else 0, *[0] * len(drawn)))
        # In a graph vmap would take the number of rows for a constant.
        may_be_parallel = draws > 1 and not torch.compiler.is_compiling()
        if may_be_parallel and self.is_parallel is None:
            few = taken(hidden, slice(2)) if outputs is None else outputs[:2, :2]
            self.is_parallel = _works(side_by_side, few, *(each[:2] for each in drawn)) or None
        if may_be_parallel and self.is_parallel:
            return side_by_side(hidden if outputs is None else outputs, *drawn)
        found = torch.stack([of_draw(draw) for draw in range(draws)])
        if may_be_parallel:  # known only now: what failed before might have been these rows' fault
            self.is_parallel = False
        return found


_OF_THE_LAST_AXIS = (nn.Linear, nn.LayerNorm, nn.Identity, nn.Dropout, MeanFieldLinear)
_OF_EACH_ENTRY = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softplus)


def _takes_draws(link: nn.Module) -> bool:
    """Whether a layer gives for draws × rows × columns what it gives for each draw."""
    return type(link) in (*_OF_THE_LAST_AXIS, *_OF_EACH_ENTRY) and not has_hooks(link)


def _works(function: Callable[..., Tensor], *given: Inputs) -> bool:
    """Whether torch can run this at all; what is the net's own fault will show when it runs draw by draw."""
    try:
        function(*given)
    except torch.OutOfMemoryError:
        raise
    except Exception:
        return False
    return True


def structure(net: nn.Module) -> list[object]:
    """What a plan depends on: all modules within and their hooks, in order. `parts_of`, in one walk."""
    found: list[object] = []
    seen = set[nn.Module]()
    waiting: list[nn.Module | None] = [net]
    while waiting:
        part = waiting.pop()
        if part is None or part in seen:
            continue
        seen.add(part)
        found.append(part)
        if part._forward_hooks:
            found += part._forward_hooks
        if part._forward_pre_hooks:
            found += part._forward_pre_hooks
        if part._modules:
            waiting += part._modules.values()
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
