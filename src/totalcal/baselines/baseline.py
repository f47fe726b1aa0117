"""What one would pick instead, as a predictor: temperature scaling, a deep ensemble."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from totalcal.errors import InputError
from totalcal.inputs import Inputs
from totalcal.scores.arrays import as_labels, class_names
from totalcal.scores.evaluate import log_likelihoods
from totalcal.scores.external import eval_mode
from totalcal.scores.streaming import Rows, labelled_blocks, numbered
from totalcal.types import Belief, Dirichlet, Draws, PointMass, Predictive, Predictor, Sampling

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
    def changes_nothing(self) -> bool:
        """Whether no temperature lowers the held-out NLL, so that T stays 1."""
        return self.temperature == 1

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
        if self.changes_nothing:
            return (
                f"temperature 1: no other lowers the held-out NLL of {self.nll_before:.4f}; nothing changes"
            )
        return (
            f"temperature {self.temperature:.3f}: held-out NLL {self.nll_before:.4f} → {self.nll_after:.4f}"
        )


def temperature_scaled(
    predictor: Predictor, held_out: Rows, draws: Draws = "auto", seed: int = 0, batch_size: int = 256
) -> TemperatureScaled:
    """The temperature with the least NLL on held-out rows, which is never above that of T = 1.

    Args:
        predictor: What predicts the rows; its log-probabilities are divided by T.
        held_out: (inputs, labels) that the net was not trained on.
        draws: Draws per prediction.
        seed: What the draws are a function of.
        batch_size: Rows at a time.

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

    log_means, labels = _held_out(predictor, held_out, draws, seed, batch_size)

    def cost(log_temperature: float) -> float:
        scaled = Predictive(_scaled(PointMass(log_means), float(np.exp(log_temperature))))
        return -float(log_likelihoods(scaled, labels).mean())

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


def _held_out(
    predictor: Predictor, held_out: Rows, draws: Draws, seed: int, size: int
) -> tuple[Tensor, Tensor]:
    """log m_s, draws × n × K, and the labels."""
    log_means, labels = [], []
    with eval_mode(predictor):
        for inputs, truth in labelled_blocks(numbered(held_out, class_names(predictor)), size):
            if truth is None:
                raise InputError(
                    "a temperature is fitted on labels; give the held-out data as (inputs, labels)."
                )
            log_mean = predictor.predict(inputs, draws=draws, seed=seed).belief.log_mean.cpu()
            labels.append(torch.as_tensor(as_labels(truth, *log_mean.shape[1:])))
            log_means.append(log_mean)
    if not labels:
        raise InputError(
            "the held-out set is empty; a temperature needs data that the net was not trained on."
        )
    return torch.cat(log_means, dim=1), torch.cat(labels)


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
