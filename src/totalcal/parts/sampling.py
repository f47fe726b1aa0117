"""How the noise of one pass is drawn: by layers inside of any backbone, and by latents."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor, nn

from totalcal.functional.gaussian import standard_normal


class Sharing(Enum):
    """Which rows of a batch share a draw."""

    ROWS = "each row has a draw of its own, where that is exact and cheap"
    SHARED = "all rows share one draw, as the joint law of several labels needs"
    MEAN = "no draw: means take the place of draws"


class Noise(NamedTuple):
    """Where randomness comes from during a pass."""

    generator: torch.Generator | None = None
    sharing: Sharing = Sharing.ROWS
    kls: "WeightKLs | None" = None
    """Where a layer may leave its KL, if it comes cheaper with the pass than by itself."""

    def normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """ε ~ N(0, I), or zeros where means are asked for."""
        if self.sharing is Sharing.MEAN:
            return like.new_zeros(shape)
        return standard_normal(shape, like, self.generator)


class StochasticLayer(nn.Module, ABC):
    """A layer whose weights are a law. It draws whatever mode (train, eval) the module is in."""

    def __init__(self) -> None:
        super().__init__()
        self.noise = Noise()

    @abstractmethod
    def kl(self) -> Tensor:
        """KL of the weights' law to its prior, in nats."""


WeightKLs = dict[StochasticLayer, Tensor]


def stochastic_layers(module: nn.Module) -> list[StochasticLayer]:
    return [layer for layer in module.modules() if isinstance(layer, StochasticLayer)]


@contextmanager
def sampling(module: nn.Module, noise: Noise) -> Iterator[None]:
    """Within this context the stochastic layers anywhere inside of `module` take their noise from `noise`."""
    layers = stochastic_layers(module)
    before = [layer.noise for layer in layers]
    for layer in layers:
        layer.noise = noise
    try:
        yield
    finally:
        for layer, old in zip(layers, before, strict=True):
            layer.noise = old


class AtMeans(nn.Module):
    """A module whose stochastic layers give their means, whatever noise is asked for around it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, inputs: Tensor) -> Tensor:
        with sampling(self.module, Noise(sharing=Sharing.MEAN)):
            output: Tensor = self.module(inputs)
        return output
