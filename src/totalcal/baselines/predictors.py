"""What one would pick instead, as a predictor: temperature scaling, a deep ensemble, MC dropout."""

import copy
from collections import Counter
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from totalcal.errors import ContextError, InputError
from totalcal.inputs import Inputs, as_inputs, call, count, received_by
from totalcal.scores.arrays import class_names, label_vector
from totalcal.scores.evaluate import log_likelihoods
from totalcal.scores.external import OutputKind, as_predictive, eval_mode
from totalcal.scores.streaming import Rows, labelled_blocks, numbered
from totalcal.types import Belief, Dirichlet, Draws, PointMass, Predictive, Predictor, Sampling

_ROWS_AT_ONCE = 256
LIMIT = 3.0  # of |log T|, so T from 0.05 to 20: a few held-out rows that are all right would ask for T = 0
SMALLEST_GAIN = 1e-9  # in nats; below it the optimiser has found T = 1 again


@dataclass(frozen=True)
class TemperatureScaled:
    """Temperature scaling (Guo et al., 2017): p_T ∝ p^(1/T), draw by draw; T = 1 is the predictor itself.

    One number, fitted on held-out data, softens or sharpens.
    """

    predictor: Predictor
    temperature: float
    nll_before: float
    nll_after: float

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The names that the predictor within has for its classes."""
        return _names_of(self.predictor)

    def predict(
        self, inputs: Inputs, *, draws: Draws = "auto", seed: int = 0, context: Any = None
    ) -> Predictive:
        """What the predictor within predicts, softened or sharpened."""
        prediction = self.predictor.predict(inputs, draws=draws, seed=seed, context=context)
        return replace(prediction, belief=_scaled(prediction.belief, self.temperature))

    def __str__(self) -> str:
        if self.temperature == 1:
            return (
                f"temperature 1: no other lowers the held-out NLL of {self.nll_before:.4f}; nothing changes"
            )
        return (
            f"temperature {self.temperature:.3f}: held-out NLL {self.nll_before:.4f} → {self.nll_after:.4f}"
        )


def temperature_scaled(predictor: Predictor, held_out: Rows) -> TemperatureScaled:
    """The temperature with the least NLL on held-out rows, which is never above that of T = 1.

    Args:
        predictor: What predicts the rows; its log-probabilities are divided by T.
        held_out: (inputs, labels) that the net was not trained on.

    Returns:
        A predictor; it says its temperature, and the held-out NLL before and after.

    Raises:
        InputError: If the held-out set is empty or has no labels.

    Example:
        >>> from totalcal.scores import from_module
        >>> net, rows = nn.Linear(4, 3), torch.zeros(30, 4)
        >>> scaled = temperature_scaled(from_module(net, "logits"), (rows, torch.arange(30) % 3))
        >>> scaled.nll_after <= scaled.nll_before
        True
    """
    from scipy.optimize import minimize_scalar

    beliefs, labels = [], []
    with eval_mode(predictor):
        for inputs, truth in labelled_blocks(numbered(held_out, class_names(predictor)), _ROWS_AT_ONCE):
            if truth is None:
                raise InputError(
                    "a temperature is fitted on labels; give the held-out data as (inputs, labels)."
                )
            beliefs.append(predictor.predict(inputs).belief.log_mean.cpu())
            labels.append(torch.as_tensor(label_vector(truth, *beliefs[-1].shape[1:])))
    if not labels:
        raise InputError(
            "the held-out set is empty; a temperature needs data that the net was not trained on."
        )
    log_means, known = PointMass(torch.cat(beliefs, dim=1)), torch.cat(labels)

    def cost(log_temperature: float) -> float:
        scaled = Predictive(_scaled(log_means, float(np.exp(log_temperature))))
        return -float(log_likelihoods(scaled, known).mean())

    before = cost(0.0)
    found = minimize_scalar(cost, bounds=(-LIMIT, LIMIT), method="bounded")
    if found.fun < before - SMALLEST_GAIN:
        return TemperatureScaled(predictor, float(np.exp(found.x)), before, float(found.fun))
    return TemperatureScaled(predictor, 1.0, before, before)


def _names_of(predictor: Predictor) -> tuple[Any, ...] | None:
    names = class_names(predictor)
    return None if names is None else tuple(names)


def _scaled(belief: Belief, temperature: float) -> PointMass:
    logits = belief.logits if isinstance(belief, PointMass) else belief.log_mean
    return PointMass(logits / temperature)


class Ensemble:
    """A deep ensemble (Lakshminarayanan et al., 2017): its members are the draws of θ, and count the same."""

    def __init__(self, members: Sequence[Predictor]) -> None:
        if not members:
            raise InputError("an ensemble needs at least one member.")
        self.members = tuple(members)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The names that its members have for their classes."""
        return _names_of(self.members[0])

    def predict(
        self, inputs: Inputs, *, draws: Draws = "auto", seed: int = 0, context: Any = None
    ) -> Predictive:
        """The members' beliefs one after the other; each member has draws of a seed of its own."""
        seeds = range(seed * len(self.members), (seed + 1) * len(self.members))
        parts = [
            member.predict(inputs, draws=draws, seed=own, context=context)
            for member, own in zip(self.members, seeds, strict=True)
        ]
        found = parts[0].sampling
        sampling = found if found.seed is None else Sampling(found.draws, seed)
        return Predictive(_stacked([part.belief for part in parts]), sampling, members=len(parts))


def _stacked(beliefs: Sequence[Belief]) -> Belief:
    """The draws of all members, as one belief; each member must bring the same kind, and equally many."""
    if len({belief.mean.shape for belief in beliefs}) > 1:
        raise InputError(
            "the members of an ensemble must give predictions of one shape: draws × batch × classes."
        )
    points = [belief.logits for belief in beliefs if isinstance(belief, PointMass)]
    if len(points) == len(beliefs):
        return PointMass(torch.cat(points))
    evidence = [belief.log_concentration for belief in beliefs if isinstance(belief, Dirichlet)]
    if len(evidence) == len(beliefs):
        return Dirichlet(torch.cat(evidence))
    raise InputError("the members of an ensemble must hold one kind of belief: all Dirichlet, or all points.")


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
