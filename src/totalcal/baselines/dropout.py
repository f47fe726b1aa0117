"""MC dropout (Gal and Ghahramani, 2016): dropout stays on at test, so that each draw lacks some units."""

import copy
from collections import Counter
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from totalcal.errors import ContextError, InputError
from totalcal.inputs import Inputs, as_inputs, call, count, received_by
from totalcal.scores.external import OutputKind, as_predictive
from totalcal.types import Draws, Predictive, Sampling

_USUAL_DRAWS = 10
_ALPHA = 1.7580993408473766  # of SELU: what alpha dropout puts in the place of a unit is −α
_BY_CHANNEL = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
_ALPHAS = (nn.AlphaDropout, nn.FeatureAlphaDropout)
DROPOUTS = (nn.Dropout, *_BY_CHANNEL, nn.AlphaDropout)


class MCDropout:
    """MC dropout for any nn.Module with dropout layers, its output kind stated.

    The masks of a draw are functions of the seed, and all rows share them: each draw is one net. It predicts
    by modules of its own, which share their weights with the module given, so that nobody's modes move.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    >>> MCDropout(net, "logits").predict(torch.zeros(2, 4), draws=5).sampling
    Sampling(draws=5, seed=0)
    """

    def __init__(self, module: nn.Module, kind: OutputKind) -> None:
        self.kind = kind
        shared = {id(each): each for each in (*module.parameters(), *module.buffers())}
        self.module = copy.deepcopy(module, shared).eval()
        layers = [part for part in self.module.modules() if isinstance(part, DROPOUTS)]
        if not any(layer.p for layer in layers):
            raise InputError("MC dropout needs a dropout layer with p > 0, but the module has none.")
        for number, layer in enumerate(layers):
            layer.forward = _Masked(layer, number)  # type: ignore[method-assign, assignment]
        for part in self.module.modules():
            if isinstance(part, nn.TransformerEncoderLayer):
                part.activation_relu_or_gelu = 0  # its fused kernel would pass dropout by

    @torch.no_grad()
    def predict(
        self, inputs: Inputs, *, draws: Draws = "auto", seed: int = 0, context: Any = None
    ) -> Predictive:
        """Draws of the seed; ten unless given, and none with 0.

        Raises:
            ContextError: A context was given: a plain net takes none.
            InputError: The draws are fewer than 0, or "moments".
        """
        if context is not None:
            raise ContextError("MC dropout takes no context: leave it out.")
        number = _USUAL_DRAWS if draws == "auto" else draws
        if not isinstance(number, int) or number < 0:
            raise InputError(f"MC dropout takes 0 draws or more, but got {number}.")
        rows = received_by(self.module, as_inputs(inputs))
        if number == 0:
            return as_predictive(call(self.module, rows), self.kind)
        outputs = [self._drawn(rows, _Masks(count(rows), seed, draw)) for draw in range(number)]
        found = as_predictive(torch.stack(outputs), self.kind)
        return Predictive(found.belief, Sampling(number, seed))

    def _drawn(self, rows: Inputs, masks: "_Masks") -> Tensor:
        token = _MASKS.set(masks)
        try:
            return call(self.module, rows)
        finally:
            _MASKS.reset(token)


class _Masks:
    """The masks of one draw: functions of the seed, the draw, the layer and how often it was used."""

    def __init__(self, rows: int, seed: int, draw: int) -> None:
        self.rows, self.seed, self.draw = rows, seed, draw
        self.uses: Counter[int] = Counter()

    def of(self, layer: int, shape: tuple[int, ...], rate: float) -> Tensor:
        """Which units are kept; along leading axes a shorter mask begins as a longer one does."""
        self.uses[layer] += 1
        entropy = self.seed % 2**64, self.draw, layer, self.uses[layer]
        (start,) = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
        return torch.rand(shape, generator=torch.Generator().manual_seed(int(start >> 1))) >= rate


_MASKS: ContextVar[_Masks | None] = ContextVar("masks", default=None)


class _Masked:
    """The forward of a dropout layer: by the masks of the running draw, and nothing outside of one."""

    def __init__(self, layer: nn.Module, number: int) -> None:
        self.rate, self.number = float(layer.p), number  # type: ignore[arg-type]
        self.is_by_channel, self.is_alpha = isinstance(layer, _BY_CHANNEL), isinstance(layer, _ALPHAS)

    def __call__(self, inputs: Tensor) -> Tensor:
        masks = _MASKS.get()
        if masks is None or not self.rate:
            return inputs
        shape, axis = _of_one_row(inputs, masks.rows)
        if self.is_by_channel:
            shape = (shape[0], *[1] * (len(shape) - 1))
        kept = masks.of(self.number, shape, self.rate).to(inputs.device)
        if axis is None:  # rows and positions in one axis
            whole = inputs.unflatten(0, (masks.rows, -1))
            return self._dropped(whole, kept).flatten(0, 1)
        return self._dropped(inputs, kept.unsqueeze(axis))

    def _dropped(self, inputs: Tensor, kept: Tensor) -> Tensor:
        if not self.is_alpha:
            return torch.where(kept, inputs / (1 - self.rate), 0.0) if self.rate < 1 else 0 * inputs
        scale = ((_ALPHA**2 * self.rate + 1) * (1 - self.rate)) ** -0.5 if self.rate < 1 else 0.0
        return torch.where(kept, inputs, -_ALPHA) * scale + _ALPHA * scale * self.rate


def _of_one_row(inputs: Tensor, rows: int) -> tuple[tuple[int, ...], int | None]:
    """The shape of what belongs to one row, and the axis of rows: the first or the second, or None.

    None stands for rows whose positions follow each other in the first axis.
    """
    shape = tuple(inputs.shape)
    if shape[0] == rows:
        return shape[1:], 0
    if len(shape) > 2 and shape[1] == rows:
        return (shape[0], *shape[2:]), 1
    if shape[0] % rows == 0:
        return (shape[0] // rows, *shape[1:]), None
    raise InputError(f"a dropout layer sees {shape[0]} rows where {rows} came in: they cannot share a mask.")
