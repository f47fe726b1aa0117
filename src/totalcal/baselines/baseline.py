"""What every baseline is: how many plain nets it takes, and how they become a predictor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from torch import nn

from totalcal.scores.streaming import Rows
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
        is_joint: Whether a draw is one draw of the weights for all rows, so that joint probabilities exist.
    """

    nets: Nets
    assemble: Callable[[Sequence[nn.Module], Rows], Predictor]
    dropout: float = 0.0
    is_joint: bool = True

    def __call__(self, train_net: TrainNet, held_out: Rows, members: int = MEMBERS) -> Predictor:
        """Train what is needed and put it together."""
        count = members if self.nets is Nets.OF_ALL_SEEDS else 1
        nets = [train_net(member, dropout=self.dropout) for member in range(count)]
        return self.assemble(nets, held_out)
