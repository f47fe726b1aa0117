"""Averaged weights: an exponential moving average over the steps of a run, which the run ends with.

Weights, the memory's cells and the running statistics of BatchNorm are averaged alike: cells and statistics
follow the weights, and belong to weights of the same age. The average is torch's (`torch.optim.swa_utils`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel


class AveragedWeights:
    """a ← d a + (1 − d) w after step t, with d = min(decay, (1 + t) / (10 + t)); after step 0 it is w.

    So the first steps, taken far from the end, are soon forgotten. `whole` is the user's model, `trained`
    itself or the part of it that is trained. Without decay the model is its own average.
    """

    def __init__(self, whole: nn.Module, trained: nn.Module, decay: float) -> None:
        self.whole, self.trained = whole, trained
        self.average: AveragedModel | None = None
        if decay:
            self.average = AveragedModel(trained, avg_fn=partial(_blended, decay), use_buffers=True)
            for value in chain(self.average.module.parameters(), self.average.module.buffers()):
                if value.is_floating_point() and value.itemsize < 4:
                    value.data = value.data.float()  # in half precision a slow average never moves

    def update(self) -> None:
        """Take in the weights after a step."""
        if self.average is not None:
            self.average.update_parameters(self.trained)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within this context the model is the averaged one."""
        if self.average is None:
            yield
            return
        live = _copied(self.trained)
        self.settle()
        try:
            yield
        finally:
            self.trained.load_state_dict(live)

    def settle(self) -> None:
        """The model becomes the averaged one: the run is over."""
        if self.average is not None and self.average.n_averaged:
            self.trained.load_state_dict(self.average.module.state_dict())

    def model_state(self) -> dict[str, Tensor]:
        """The model as a user gets it."""
        if self.average is None:
            return self.whole.state_dict()
        with self.in_place():
            return _copied(self.whole)

    def state_dict(self) -> dict[str, Any]:
        """What training goes on from, where that is not the model as a user gets it."""
        if self.average is None:
            return {}
        return {"live": self.trained.state_dict(), "average": self.average.state_dict()}

    def load(self, model: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Take up what `model_state` and `state_dict` gave."""
        self.whole.load_state_dict(model)
        if self.average is not None:
            self.average.load_state_dict(state["average"])
            self.trained.load_state_dict(state["live"])


def _blended(decay: float, average: Tensor, current: Tensor, steps: Tensor | int) -> Tensor:
    if not average.is_floating_point():  # counters show where the run stands
        return current
    taken = int(steps)
    return average.lerp(current.to(average.dtype), 1 - min(decay, (1 + taken) / (10 + taken)))


def _copied(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}
