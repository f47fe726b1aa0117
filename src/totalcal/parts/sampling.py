"""How the noise of one pass is drawn: by layers inside of any backbone, and by latents.

Noise belongs to a pass, not to a layer: threads that share a model each have passes of their own. In a pass a
layer draws once, however often it is used, and a pass that autograd runs again (activation checkpointing)
meets what it met the first time. What has a distribution stays in full precision, whatever the module around
it is converted to.
"""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any, NamedTuple, Self, TypeVar

import torch
from torch import Tensor, nn

from totalcal.functional.gaussian import HALVES, standard_normal


class FullPrecision(nn.Module):
    """A module whose own parameters and buffers stay in float32 when it is asked for less.

    A log-variance of −9 has neighbours 0.06 apart in bfloat16, many times a step of gradient descent, and a
    memory cell that keeps 99 % of itself likewise hardly moves. What the module gives is in the precision
    that was asked for (`output_dtype`), so that it fits its neighbours.
    """

    _spoken: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("_spoken", torch.empty(0), persistent=False)  # follows every conversion

    @property
    def output_dtype(self) -> torch.dtype:
        """The precision of what the module gives."""
        return self._spoken.dtype

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Where every conversion of a module passes: `to`, `half`, `bfloat16`, `cuda`."""
        if recurse:
            for child in self.children():
                child._apply(fn)

        def at_least_single(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            if tensor is self._spoken or moved.dtype not in HALVES:
                return moved
            return tensor.detach().to(moved.device, torch.float32)

        converted: Any = super()._apply(at_least_single, recurse=False)
        return converted  # type: ignore[no-any-return]


R = TypeVar("R")


class Sharing(Enum):
    """Which rows of a batch share a draw."""

    ROWS = "each row has a draw of its own, where that is exact and cheap"
    SHARED = "all rows share one draw, as the joint distribution of several labels needs"
    MEAN = "no draw: means take the place of draws"


class Noise(NamedTuple):
    """Where randomness comes from, and how it is dealt out.

    With `paired`, draw i + ⌈n / 2⌉ of n is draw i with all of its noise negated: half as many normal numbers,
    and a mean that is nearer to the expectation than that of independent draws.
    """

    generator: torch.Generator | None = None
    sharing: Sharing = Sharing.ROWS
    paired: bool = False
    fixed: "FixedDraws | None" = None

    def normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """ε ~ N(0, I), or zeros where means are asked for."""
        if self.sharing is Sharing.MEAN:
            return like.new_zeros(shape)
        if self.fixed is not None:
            return self.fixed.next_normal(shape, like)
        return standard_normal(shape, like, self.generator)

    def draws(self, count: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """ε for each draw, count × shape."""
        if not self.paired:
            return self.normal((count, *shape), like)
        half = self.normal(((count + 1) // 2, *shape), like)
        return torch.cat([half, -half[: count // 2]])


class FixedDraws:
    """What a seed stands for, made once and met again in every pass: an exported program draws nothing.

    Attributes:
        count: How many draws.
        seed: What they are a function of.
        weights: For each draw those of every layer that draws.
    """

    def __init__(
        self,
        count: int,
        seed: int,
        weights: "Sequence[Mapping[StochasticLayer, Tensor]]",
        generator: torch.Generator | None,
    ) -> None:
        self.count, self.seed, self.weights = count, seed, weights
        self._generator = generator
        self._normals: list[Tensor] = []
        self._given = 0

    def rewound(self) -> "FixedDraws":
        """The same draws for another pass, those included that are yet to be made."""
        again = FixedDraws(self.count, self.seed, self.weights, self._generator)
        again._normals = self._normals
        return again

    def next_normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """ε of what draws besides the layers: new in the first pass, and remembered from then on."""
        if self._given == len(self._normals):
            self._normals.append(standard_normal(shape, like, self._generator))
        found = self._normals[self._given]
        self._given += 1
        return found


class StochasticLayer(FullPrecision, ABC):
    """A layer whose weights have a distribution. It draws whatever mode (train, eval) the module is in."""

    is_reused: bool | None = None
    """Whether a pass was seen to use it more than once: then it draws weights, which all rows share.

    None before the first pass.
    """

    @property
    def noise(self) -> Noise:
        """That of the pass that is running in this thread."""
        running = running_pass()
        return Noise() if running is None else running.noise

    def draws_at_outputs(self) -> bool:
        """Whether each row may have noise of its own at the output, instead of a draw of the weights."""
        running = running_pass()
        if running is not None and running.is_repeat:
            return running.drew_outputs(self)
        return self.noise.sharing is Sharing.ROWS and not self.is_reused

    def epsilon(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """ε ~ N(0, I), the same whenever the layer is used in a pass: for weights."""
        running = running_pass()
        return self.noise.normal(shape, like) if running is None else running.of_weights(self, shape, like)

    def epsilon_of_outputs(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """ε ~ N(0, I) for noise at the output, which is right only where a pass uses the layer once."""
        running = running_pass()
        return self.noise.normal(shape, like) if running is None else running.of_outputs(self, shape, like)

    @abstractmethod
    def kl(self) -> Tensor:
        """KL of the weights' distribution to its prior, in nats."""


WeightKLs = dict[StochasticLayer, Tensor]


class LayerReusedError(Exception):
    """Noise was drawn at a layer's output, and now the layer is used again: the pass has to start again."""


class Pass:
    """One run through a net with one draw of its weights (or, inside of vmap, with all of them)."""

    def __init__(self, noise: Noise, sign: Tensor | None = None, mirrored: "Pass | None" = None) -> None:
        self.noise, self.sign, self.mirrored = noise, sign, mirrored
        self.weights: dict[StochasticLayer, Tensor] = {}
        self.kls: WeightKLs | None = None
        """Where layers leave KLs of their weights that come cheaper with the pass than by themselves."""
        self.with_gradients = torch.is_grad_enabled()
        self.is_repeat = False
        self._weights: dict[StochasticLayer, Tensor] = {}
        self._outputs: dict[StochasticLayer, Tensor] = {}

    def of_weights(self, layer: StochasticLayer, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """The noise of a layer's weights: one draw per pass."""
        if layer in self._outputs and not self.is_repeat:
            self._start_again_with(layer)
        if layer not in self._weights:
            known = None if self.mirrored is None else self.mirrored._weights.get(layer)
            self._weights[layer] = self._drawn(known, shape, like)
        return self._weights[layer]

    def of_outputs(self, layer: StochasticLayer, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """The noise of a layer's outputs, for its only use in a pass."""
        if self.is_repeat and layer in self._outputs:
            return self._outputs[layer]
        if layer in self._outputs or layer in self._weights:
            self._start_again_with(layer)
        known = None if self.mirrored is None else self.mirrored._outputs.get(layer)
        self._outputs[layer] = self._drawn(known, shape, like)
        return self._outputs[layer]

    def drew_outputs(self, layer: StochasticLayer) -> bool:
        return layer in self._outputs

    def repeated_by(self, output: Tensor) -> None:
        """When gradients flow back from `output`, what is run again meets this pass's noise."""
        if output.grad_fn is None:
            return
        again = Pass(self.noise)  # without the KLs: they hold the graph that holds the hook
        again.is_repeat, again._weights, again._outputs = True, self._weights, self._outputs

        def announce(_: tuple[Tensor, ...]) -> None:
            _REPEATED.set(weakref.ref(again))

        output.grad_fn.register_prehook(announce)

    def _drawn(self, known: Tensor | None, shape: tuple[int, ...], like: Tensor) -> Tensor:
        if known is not None and known.shape == shape:
            return -known
        epsilon = self.noise.normal(shape, like)
        return epsilon if self.sign is None else self.sign.to(epsilon.dtype) * epsilon

    def _start_again_with(self, layer: StochasticLayer) -> None:
        layer.is_reused = True
        raise LayerReusedError


_RUNNING: ContextVar[Pass | None] = ContextVar("running", default=None)
_REPEATED: ContextVar["weakref.ref[Pass] | None"] = ContextVar("repeated", default=None)


def running_pass() -> Pass | None:
    """The pass that is running in this thread; in a backward pass, the one that is run again for it."""
    running = _RUNNING.get()
    if running is not None or torch._C._current_graph_task_id() == -1:
        return running
    repeated = _REPEATED.get()
    return None if repeated is None else repeated()


@contextmanager
def sampling(noise: Noise, sign: Tensor | None = None, mirrored: Pass | None = None) -> Iterator[Pass]:
    """One pass: within this context stochastic layers, anywhere, draw from `noise`."""
    running = Pass(noise, sign, mirrored)
    token = _RUNNING.set(running)
    try:
        yield running
    finally:
        _RUNNING.reset(token)


def with_uses_known(module: nn.Module, noise: Noise, run: Callable[[], R]) -> R:
    """What `run` gives, a function of `noise` alone, also where it finds that a layer is used several times.

    Then it starts again, with randomness and buffers (running statistics) as they were; a layer remembers, so
    that it happens once.
    """
    new = [layer for layer in stochastic_layers(module) if layer.is_reused is None]
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()] if new else []
    device = next((weight.device for weight in module.parameters()), torch.device("cpu"))
    state = _random_state(noise.generator, device)
    while True:
        try:
            result = run()
        except LayerReusedError:
            _restore_random_state(noise.generator, device, state)
            for buffer, before in buffers:
                buffer.copy_(before)
            continue
        for layer in new:
            layer.is_reused = bool(layer.is_reused)
        return result


def _random_state(generator: torch.Generator | None, device: torch.device) -> Tensor:
    if generator is not None:
        return generator.get_state()
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _restore_random_state(generator: torch.Generator | None, device: torch.device, state: Tensor) -> None:
    if generator is not None:
        generator.set_state(state)
    elif device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def stochastic_layers(module: nn.Module) -> list[StochasticLayer]:
    """All layers within a module whose weights have a distribution."""
    return [layer for layer in module.modules() if isinstance(layer, StochasticLayer)]


class AtMeans(nn.Module):
    """A module whose stochastic layers give their means, whatever noise is asked for around it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, inputs: Tensor) -> Tensor:
        with sampling(Noise(sharing=Sharing.MEAN)):
            output: Tensor = self.module(inputs)
        return output
