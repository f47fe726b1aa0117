"""Temperature scaling (Guo et al., 2017): one number, fitted on held-out data, softens or sharpens."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from totalcal.baselines.baseline import Baseline, Nets
from totalcal.errors import InputError
from totalcal.inputs import Inputs
from totalcal.rejection import predict_like
from totalcal.scores.arrays import check_labels
from totalcal.scores.evaluate import log_likelihoods
from totalcal.scores.external import eval_mode, from_module
from totalcal.scores.streaming import Rows, blocks
from totalcal.types import PointMass, Predictive, Predictor, Sampling

LIMIT = 3.0  # of |log T|, so T from 0.05 to 20: a few held-out rows that are all right would ask for T = 0
SMALLEST_GAIN = 1e-9  # in nats; below it the optimiser has found T = 1 again


@dataclass(frozen=True)
class TemperatureScaled:
    """p_T ∝ p^(1/T), draw by draw; T = 1 is the predictor itself."""

    predictor: Predictor
    temperature: float
    nll_before: float
    nll_after: float

    @property
    def changes_nothing(self) -> bool:
        """Whether no temperature lowers the held-out NLL, so that T stays 1."""
        return self.temperature == 1

    def predict(
        self, inputs: Inputs, draws: int = 10, generator: torch.Generator | None = None
    ) -> Predictive:
        return self._softened(self.predictor.predict(inputs, draws=draws, generator=generator))

    def predict_shared(self, inputs: Inputs, draws: int = 10, seed: int = 0) -> Predictive:
        """`predict` with draws that all rows share, where the predictor within has them."""
        return self._softened(predict_like(self.predictor, inputs, Sampling(draws, seed, shared=True)))

    def _softened(self, prediction: Predictive) -> Predictive:
        scaled = _scaled(prediction.belief.log_mean, self.temperature)
        return replace(prediction, belief=scaled.belief)

    def __str__(self) -> str:
        if self.changes_nothing:
            return (
                f"temperature 1: no other lowers the held-out NLL of {self.nll_before:.4f}; nothing changes"
            )
        return (
            f"temperature {self.temperature:.3f}: held-out NLL {self.nll_before:.4f} → {self.nll_after:.4f}"
        )


def temperature_scaled(
    predictor: Predictor, held_out: Rows, draws: int = 10, seed: int = 0, batch_size: int = 256
) -> TemperatureScaled:
    """The temperature with the least NLL on held-out (inputs, labels), which is never above that of T = 1."""
    from scipy.optimize import minimize_scalar

    log_means, labels = _held_out(predictor, held_out, draws, seed, batch_size)

    def cost(log_temperature: float) -> float:
        return -float(log_likelihoods(_scaled(log_means, float(np.exp(log_temperature))), labels).mean())

    before = cost(0.0)
    found = minimize_scalar(cost, bounds=(-LIMIT, LIMIT), method="bounded")
    if found.fun < before - SMALLEST_GAIN:
        return TemperatureScaled(predictor, float(np.exp(found.x)), before, float(found.fun))
    return TemperatureScaled(predictor, 1.0, before, before)


def _scaled(log_means: Tensor, temperature: float) -> Predictive:
    return Predictive(PointMass(log_means / temperature))


def _held_out(
    predictor: Predictor, held_out: Rows, draws: int, seed: int, size: int
) -> tuple[Tensor, Tensor]:
    """log m_s, draws × n × K, and the labels."""
    generator = torch.Generator().manual_seed(seed)
    log_means, labels = [], []
    with eval_mode(predictor):
        for inputs, truth in blocks(held_out, size):
            if truth is None:
                raise InputError(
                    "a temperature is fitted on labels; give the held-out data as (inputs, labels)."
                )
            log_mean = predictor.predict(inputs, draws=draws, generator=generator).belief.log_mean
            labels.append(torch.as_tensor(check_labels(truth, *log_mean.shape[1:])))
            log_means.append(log_mean)
    if not labels:
        raise InputError(
            "the held-out set is empty; a temperature needs data that the net was not trained on."
        )
    return torch.cat(log_means, dim=1), torch.cat(labels)


BASELINE = Baseline(
    Nets.OF_ITS_SEED,
    lambda nets, held_out: temperature_scaled(from_module(nets[0], "logits"), held_out),
)
"""The plain net, its temperature fitted on the held-out data."""
