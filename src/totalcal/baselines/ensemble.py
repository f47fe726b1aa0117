"""A deep ensemble (Lakshminarayanan et al., 2017): its members are the draws of θ."""

from collections.abc import Sequence

import torch

from totalcal.baselines.baseline import Baseline, Nets
from totalcal.errors import InputError
from totalcal.inputs import Inputs
from totalcal.rejection import predict_like
from totalcal.scores.external import from_module
from totalcal.types import Belief, Dirichlet, PointMass, Predictive, Predictor, Sampling


class Ensemble:
    """Several predictors, each of which counts the same."""

    def __init__(self, members: Sequence[Predictor]) -> None:
        if not members:
            raise InputError("an ensemble needs at least one member.")
        self.members = tuple(members)

    def predict(
        self, inputs: Inputs, draws: int = 10, generator: torch.Generator | None = None
    ) -> Predictive:
        """The members' beliefs one after the other; each member gets `draws` and `generator`."""
        return _joined([member.predict(inputs, draws=draws, generator=generator) for member in self.members])

    def predict_shared(self, inputs: Inputs, draws: int = 10, seed: int = 0) -> Predictive:
        """`predict` with draws that all rows share, for members that have them."""
        way = Sampling(draws, seed, shared=True)
        return _joined([predict_like(member, inputs, way) for member in self.members])


def _joined(predictions: Sequence[Predictive]) -> Predictive:
    """All draws of all members; how they were made is known where it is the same for all."""
    ways = {prediction.sampling for prediction in predictions}
    stacked = _stacked([prediction.belief for prediction in predictions])
    return Predictive(stacked, ways.pop() if len(ways) == 1 else None, members=len(predictions))


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


BASELINE = Baseline(Nets.OF_ALL_SEEDS, lambda nets, _: Ensemble([from_module(net, "logits") for net in nets]))
"""Five nets unless told; needs no held-out data."""
