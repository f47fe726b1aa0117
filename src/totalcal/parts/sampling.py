"""Where randomness comes from, and which pass through a net a layer is in. All of it is in this file.

A pass is one run through a net, and a context within which its layers know what to do:

    with sampling(MEANS): ...  # weights are their means
    with sampling(SeedNoise(10, seed=0), epsilons): ...  # a prediction: μ + σ ε, ε a function of the seed
    with sampling(Noise(generator)): ...  # a training step: ε from a generator that goes on

Noise belongs to a pass, not to a layer: threads that share a model each have passes of their own. In a pass a
layer has one draw of its weights, however often it is used. While it learns, a layer that a pass uses once
may draw at its outputs instead, for each row by itself (local reparameterisation). Outside of any pass layers
are at their means and give no gradients. Activation checkpointing runs parts of a net again, outside of the
pass: it needs `same_draws`. What has a distribution stays in full precision, whatever the module around it is
converted to.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from totalcal.errors import InputError, TotalcalError
from totalcal.functional.gaussian import HALVES, standard_normal

MOST_AT_ONCE = 16  # pairs of draws that run side by side
_MOST_NUMBERS = 2**25  # of noise at once: 128 MB
_STREAMS = 0x9E3779B97F4A7C15  # far apart, so that the streams of neighbouring seeds do not meet


class Noise:
    """ε ~ N(0, I) from a generator that goes on, as training has it; from torch's global one without any."""

    def __init__(self, generator: torch.Generator | None = None) -> None:
        self.generator = generator

    def normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """ε of a shape, on the device and in the precision of `like`."""
        return standard_normal(shape, like, self.generator)

    def uniform(self, like: Tensor) -> Tensor:
        """A number between 0 and 1, on the device of `like`."""
        where = like.device if self.generator is None else self.generator.device
        return torch.rand((), generator=self.generator, device=where).to(like.device)

    def draws(self, count: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """ε for each draw, count × shape."""
        return self.normal((count, *shape), like)


class _NoNoise(Noise):
    def normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return like.new_zeros(shape)


MEANS = _NoNoise()
"""Means take the place of draws."""


class SeedNoise(Noise):
    """The noise of a prediction: a function of a seed, and of neither rows, batch, thread nor device.

    It is drawn on the CPU in float32. With `paired`, draw i + ⌈n / 2⌉ of n is draw i negated: a mean that is
    nearer to the expectation than that of independent draws. A single pair would say nothing of the variance
    over draws: that begins with three.
    """

    def __init__(self, count: int, seed: int, paired: bool = True) -> None:
        super().__init__()
        if count < 0:
            raise InputError(f"draws must be 0 (means) or more, but is {count}.")
        self.count, self.seed, self.is_paired = count, seed, paired and count > 2
        self._known: dict[object, Any] = {}
        self._asked = 0

    def again(self) -> "SeedNoise":
        """The same noise for another prediction; what was drawn is not drawn again."""
        same = SeedNoise(self.count, self.seed, self.is_paired)
        same._known = self._known
        return same

    def normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return self.draws(1, shape, like)[0]

    def draws(self, count: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
        self._asked += 1  # a latent may ask several times, for noise that is independent
        key = self._asked, count, shape, like.dtype, like.device
        if key not in self._known:
            drawn = torch.randn(
                ((count + 1) // 2 if self.is_paired else count, *shape), generator=self._stream(self._asked)
            )
            self._known[key] = self._with_mirrored(drawn)[:count].to(like)
        found: Tensor = self._known[key]
        return found

    def of_layers(self, layers: "Sequence[StochasticLayer]") -> Iterator[list[Tensor]]:
        """ε of each layer, [draws, *shape], for as many draws at once as fit into memory.

        Where they are paired, a block has some of them, then these negated.
        """
        likes = [layer.noise_like for layer in layers]
        number = (self.count + 1) // 2 if self.is_paired else self.count
        size = min(number, MOST_AT_ONCE, max(1, _MOST_NUMBERS // (2 * sum(like.numel() for like in likes))))
        key = tuple((like.shape, like.dtype, like.device) for like in likes)
        if key in self._known:
            yield self._known[key]
            return
        generator = self._stream(0)
        for start in range(0, number, size):
            drawn = [
                [torch.randn(like.shape, generator=generator) for like in likes]
                for _ in range(min(size, number - start))
            ]
            block = [
                self._with_mirrored(torch.stack(each)).to(like)
                for each, like in zip(zip(*drawn, strict=True), likes, strict=True)
            ]
            if size == number:
                self._known[key] = block
            yield block

    def _with_mirrored(self, drawn: Tensor) -> Tensor:
        return torch.cat([drawn, -drawn]) if self.is_paired else drawn

    def _stream(self, place: int) -> torch.Generator:
        return torch.Generator().manual_seed((self.seed + place * _STREAMS) % 2**63)


class FullPrecision(nn.Module):
    """A module whose own parameters and buffers stay in float32 when it is asked for less.

    A log-variance of −9 has neighbours 0.06 apart in bfloat16, many times a step of gradient descent, and a
    memory cell that keeps 99 % of itself likewise hardly moves. What the module gives is in the precision
    that was asked for (`output_dtype`), so that it fits its neighbours.
    """

    _output_dtype: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("_output_dtype", torch.empty(0), persistent=False)  # follows every conversion

    @property
    def output_dtype(self) -> torch.dtype:
        """The precision of what the module gives."""
        return self._output_dtype.dtype

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Where every conversion of a module passes: `to`, `half`, `bfloat16`, `cuda`."""
        if recurse:
            for child in self.children():
                child._apply(fn)

        def at_least_single(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            if tensor is self._output_dtype or moved.dtype not in HALVES:
                return moved
            return tensor.detach().to(moved.device, torch.float32)

        converted: Any = super()._apply(at_least_single, recurse=False)
        return converted  # type: ignore[no-any-return]


class StochasticLayer(FullPrecision, ABC):
    """A layer whose weights have a distribution. It draws whatever mode (train, eval) the module is in."""

    is_reused: bool | None = None
    """Whether a pass uses it more than once: then it draws weights while it learns, too. None: not known."""

    @property
    @abstractmethod
    def noise_like(self) -> Tensor:
        """A tensor like the ε that one draw of the weights takes: its shape, its precision, its place."""

    @abstractmethod
    def kl(self) -> Tensor:
        """KL of the weights' distribution to its prior, in nats."""

    def epsilon(self) -> Tensor:
        """ε ~ N(0, I) for the weights: the same whenever the layer is used in a pass; zeros at means."""
        running = pass_to_draw_in()
        return torch.zeros_like(self.noise_like) if running is None else running.of_weights(self)


WeightKLs = dict[StochasticLayer, Tensor]


class LastUse(NamedTuple):
    """A layer with what it received and gave, and how often either had been written over by then."""

    layer: StochasticLayer
    inputs: Tensor
    output: Tensor
    versions: tuple[int, int]

    @classmethod
    def of(cls, layer: StochasticLayer, inputs: Tensor, output: Tensor) -> "LastUse":
        return cls(layer, inputs, output, (inputs._version, output._version))

    def gave(self, output: Tensor) -> bool:
        """Whether this is what the layer gave, and both are as they were."""
        return output is self.output and self.versions == (self.inputs._version, output._version)


class Pass:
    """One run through a net with one draw of its weights (or, inside of vmap, with several).

    It is a context, within which stochastic layers, anywhere, are a part of it.
    """

    def __init__(
        self,
        noise: Noise,
        epsilons: Mapping[StochasticLayer, Tensor] | None = None,
        weights: Mapping[StochasticLayer, Tensor] | None = None,
    ) -> None:
        self.noise, self.is_at_means, self.learns = noise, noise is MEANS, type(noise) is Noise
        self.weights: dict[StochasticLayer, Tensor] = dict(weights or {})
        """Draws that layers leave here to find them again, where no gradients are wanted."""
        self.kls: WeightKLs | None = None
        """Where layers leave KLs of their weights that come cheaper with the pass than by themselves."""
        self.uses: dict[StochasticLayer, int] = {}
        """How often each layer was used, counted where weights are their means."""
        self.last: LastUse | None = None
        """What the layer that was used last received and gave, where weights are their means."""
        self.with_gradients = torch.is_grad_enabled()
        self._epsilons = dict(epsilons or {})
        self._outputs: dict[StochasticLayer, Tensor] = {}
        self._is_repeat = False

    def __enter__(self) -> Self:
        self._token = _RUNNING.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _RUNNING.reset(self._token)

    def of_weights(self, layer: StochasticLayer) -> Tensor:
        """The noise of a layer's weights: one draw per pass."""
        if layer in self._outputs:
            layer.is_reused = True
        if layer not in self._epsilons:
            like = layer.noise_like
            self._epsilons[layer] = self.noise.normal(tuple(like.shape), like)
        return self._epsilons[layer]

    def draws_at_outputs(self, layer: StochasticLayer) -> bool:
        """Whether each row may have noise of its own at the layer's output, instead of a draw of weights."""
        if self._is_repeat:
            return layer in self._outputs
        return self.learns and not layer.is_reused and layer not in self._epsilons

    def of_outputs(self, layer: StochasticLayer, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """The noise of a layer's outputs, for its only use in a pass."""
        if self._is_repeat:
            return self._outputs[layer]
        layer.is_reused = layer in self._outputs  # known by now, but for nets that look at their inputs
        self._outputs[layer] = self.noise.normal(shape, like)
        return self._outputs[layer]

    def repeated(self) -> "Pass":
        """The same noise for parts of the net that are run again; not the KLs, which hold the graph."""
        again = Pass(self.noise)
        again._is_repeat, again._epsilons, again._outputs = True, self._epsilons, self._outputs
        return again


_RUNNING: ContextVar[Pass | None] = ContextVar("running", default=None)


def running_pass() -> Pass | None:
    """The pass that is running in this thread, if any."""
    return _RUNNING.get()


def pass_to_draw_in() -> Pass | None:
    """The pass that is running; None outside of any, where a layer is at its mean and gives no gradients."""
    running = _RUNNING.get()
    if running is None and torch.is_grad_enabled():
        raise TotalcalError(
            "a layer whose weights have a distribution gives gradients within a pass only: train its model, "
            "or write `with sampling(MEANS):`. A part of a net that is run again for gradients needs "
            "checkpoint(…, use_reentrant=False, context_fn=totalcal.parts.same_draws)."
        )
    return running


def sampling(
    noise: Noise,
    epsilons: Mapping[StochasticLayer, Tensor] | None = None,
    weights: Mapping[StochasticLayer, Tensor] | None = None,
) -> Pass:
    """One pass: within this context stochastic layers, anywhere, draw from `noise`, or take what is given:
    ε, or the weights that were drawn."""
    return Pass(noise, epsilons, weights)


def same_draws() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    """The `context_fn` of activation checkpointing: what is run again meets the draws of its pass.

        checkpoint(block, rows, use_reentrant=False, context_fn=same_draws)
        transformer.gradient_checkpointing_enable({"use_reentrant": False, "context_fn": same_draws})

    Returns:
        What a part of a net is run in, and what it is run in again.
    """
    running = _RUNNING.get()
    return nullcontext(), nullcontext() if running is None else running.repeated()


def stochastic_layers(module: nn.Module) -> list[StochasticLayer]:
    """All layers within a module whose weights have a distribution."""
    return [layer for layer in module.modules() if isinstance(layer, StochasticLayer)]


def move_like(net: nn.Module, *parts: nn.Module) -> None:
    """Move parts to where the output of a net is, and to its precision: those of its last weights."""
    like: Tensor | None = None
    for layer in net.modules():
        own = [weight for weight in layer.parameters(recurse=False) if weight.is_floating_point()]
        if own:
            like = layer._output_dtype if isinstance(layer, FullPrecision) else own[-1]
    if like is not None:
        for part in parts:
            part.to(like.device, like.dtype)


class AtMeans(nn.Module):
    """A module whose stochastic layers give their means, whatever noise is asked for around it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, inputs: Tensor) -> Tensor:
        with sampling(MEANS):
            output: Tensor = self.module(inputs)
        return output
