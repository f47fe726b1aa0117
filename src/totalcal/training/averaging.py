"""Averaged weights: an exponential moving average over the steps of a run, which the run ends with.

Everything in floating point that training moves is averaged: weights, the memory's cells, and the running
means and variances of BatchNorm. Cells and statistics follow the weights, and belong to weights of the same
age. Counters show where the run stands.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from totalcal.functional.gaussian import at_least_single


class AveragedWeights:
    """a ← d a + (1 − d) w after every step, with d = min(decay, (1 + t) / (10 + t)) in step t.

    So the first steps, taken far from the end, are soon forgotten. `whole` is the user's model, `trained`
    itself or what is trained of it. Without decay the model is its own average.
    """

    def __init__(self, whole: nn.Module, trained: nn.Module, decay: float) -> None:
        self.whole, self.decay = whole, decay
        self._live = _moving(whole, trained) if decay else {}
        self._averages = {name: at_least_single(value).clone() for name, value in self._live.items()}

    @torch.no_grad()
    def update(self, steps: int) -> None:
        """Take in the weights after a step; `steps` were taken in before."""
        share = 1 - min(self.decay, (1 + steps) / (10 + steps))
        for name, value in self._live.items():
            self._averages[name].lerp_(value.to(self._averages[name].dtype), share)

    def model_state(self) -> dict[str, Tensor]:
        """The model as a user gets it."""
        return {**self.whole.state_dict(), **self._averages}

    def live_state(self) -> dict[str, Tensor]:
        """What training goes on from, where that is not the model as a user gets it."""
        return self._live

    @torch.no_grad()
    def load(self, model: dict[str, Tensor], live: dict[str, Tensor]) -> None:
        """Take up what `model_state` and `live_state` gave."""
        self.whole.load_state_dict({**model, **live})
        for name, average in self._averages.items():
            average.copy_(model[name])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within this context the model is the averaged one."""
        live = {name: value.clone() for name, value in self._live.items()}
        self.settle()
        try:
            yield
        finally:
            self._fill(live)

    def settle(self) -> None:
        """The model becomes the averaged one: the run is over."""
        self._fill(self._averages)

    @torch.no_grad()
    def _fill(self, values: dict[str, Tensor]) -> None:
        for name, value in values.items():
            self._live[name].copy_(value)


def _moving(whole: nn.Module, trained: nn.Module) -> dict[str, Tensor]:
    """The tensors of `whole` that training `trained` moves, by name: what is frozen is not averaged."""
    places = {value.data_ptr() for value in trained.state_dict().values()}
    return {
        name: value
        for name, value in whole.state_dict().items()
        if value.is_floating_point() and value.data_ptr() in places
    }
