"""What plain nets are made into, for comparison: a grid lists them by name beside the family."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol

from torch import nn

from totalcal.baselines import Ensemble, MCDropout, temperature_scaled
from totalcal.scores import from_module
from totalcal.types import Predictor

MEMBERS = 5


class TrainNet(Protocol):
    """Gives a trained plain net that puts out logits; each `member` starts from another seed."""

    def __call__(self, member: int = 0, dropout: float = 0.0) -> nn.Module: ...


class Nets(Enum):
    """Which plain nets a baseline is made of, where several seeds are trained."""

    OWN = "one of its own, trained for it"
    OF_ITS_SEED = "the plain net of its seed"
    OF_ALL_SEEDS = "the plain nets of all seeds"


@dataclass(frozen=True)
class Baseline:
    """Plain nets that put out logits, and held-out data, made into a predictor.

    Args:
        nets: Which plain nets it takes.
        assemble: From the nets and held-out (inputs, labels) to the predictor.
        dropout: Of the net that is trained for it.
    """

    nets: Nets
    assemble: Callable[[Sequence[nn.Module], Any], Predictor]
    dropout: float = 0.0

    def __call__(self, train_net: TrainNet, held_out: Any, members: int = MEMBERS) -> Predictor:
        """Train what is needed and put it together."""
        count = members if self.nets is Nets.OF_ALL_SEEDS else 1
        nets = [train_net(member, dropout=self.dropout) for member in range(count)]
        return self.assemble(nets, held_out)


BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {
        "temperature": Baseline(
            Nets.OF_ITS_SEED,
            lambda nets, held_out: temperature_scaled(from_module(nets[0], "logits"), held_out),
        ),
        "mc_dropout": Baseline(Nets.OWN, lambda nets, _: MCDropout(nets[0], "logits"), dropout=0.2),
        "ensemble": Baseline(
            Nets.OF_ALL_SEEDS, lambda nets, _: Ensemble([from_module(net, "logits") for net in nets])
        ),
    }
)
"""Every baseline by its name in `records.labels.BASELINE_NAMES`; the first alone needs held-out data."""
