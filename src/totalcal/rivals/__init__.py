"""What one would pick instead: temperature scaling, MC dropout, a deep ensemble, each as a predictor."""

from collections.abc import Callable
from typing import Protocol

from torch import nn

from totalcal.errors import UnknownNameError
from totalcal.rivals.dropout import MCDropout
from totalcal.rivals.ensemble import Ensemble
from totalcal.rivals.temperature import TemperatureScaled, temperature_scaled
from totalcal.scores.blocks import Rows
from totalcal.scores.foreign import from_module
from totalcal.types import Predictor

MEMBERS = 5
DROPOUT = 0.2


class TrainNet(Protocol):
    """Gives a trained plain net that puts out logits; each `member` starts from another seed."""

    def __call__(self, member: int = 0, dropout: float = 0.0) -> nn.Module: ...


Rival = Callable[[TrainNet, Rows], Predictor]
"""From a way to train nets and held-out data to a predictor."""


def temperature(train_net: TrainNet, held_out: Rows) -> TemperatureScaled:
    """One net, its temperature fitted on the held-out data."""
    return temperature_scaled(from_module(train_net(), "logits"), held_out)


def mc_dropout(train_net: TrainNet, held_out: Rows) -> MCDropout:
    """One net trained with dropout of 0.2, which stays on; needs no held-out data."""
    return MCDropout(train_net(dropout=DROPOUT), "logits")


def ensemble(train_net: TrainNet, held_out: Rows) -> Ensemble:
    """Five nets; needs no held-out data."""
    return Ensemble([from_module(train_net(member), "logits") for member in range(MEMBERS)])


RIVALS: dict[str, Rival] = {"temperature": temperature, "mc_dropout": mc_dropout, "ensemble": ensemble}


def rival_named(name: str) -> Rival:
    if name not in RIVALS:
        raise UnknownNameError("rival", name, RIVALS)
    return RIVALS[name]


__all__ = [
    "RIVALS",
    "Ensemble",
    "MCDropout",
    "Rival",
    "TemperatureScaled",
    "TrainNet",
    "ensemble",
    "mc_dropout",
    "rival_named",
    "temperature",
    "temperature_scaled",
]
