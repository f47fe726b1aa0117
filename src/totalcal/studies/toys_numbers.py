"""What the toys' figures show, as numbers: the paper's account of them (appendix B), made checkable."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from totalcal.studies.toys import Study

CLEAR_ODDS = 9.0
DRAWS_TO_MEASURE = 200


class ToyNumbers(NamedTuple):
    """One trained toy, measured on a line through its inputs and on its data."""

    toy: str
    seed: int
    accuracy: float
    """Of the predictions for the training points."""
    right_class: float
    """Of the line, where the reference is sure at 9 : 1: how often the right class has most evidence."""
    spread_correlation: float
    """Rank correlation over the line of the distance from the boundary and the spread of the right class."""
    dominance: tuple[float, ...]
    """For each class, at its points: its evidence over the strongest other one's, geometric mean."""
    largest_cell: float


def line(study: Study, points: int = 201) -> Tensor:
    """Inputs along the first axis, through the middle of the others: data and one unit on either side."""
    low, high = window(study)
    inputs = ((low + high) / 2).repeat(points, 1)
    inputs[:, 0] = torch.linspace(float(low[0]), float(high[0]), points)
    return inputs


def window(study: Study, margin: float = 1.0) -> tuple[Tensor, Tensor]:
    """The corners of what a figure shows: the data and a margin around it."""
    inputs = study.toy.data.inputs
    return inputs.amin(0) - margin, inputs.amax(0) + margin


def numbers(study: Study) -> ToyNumbers:
    toy, inputs = study.toy, line(study)
    right, distance = toy.right_class(inputs), toy.distance(inputs)
    evidence = study.evidence(inputs, draws=DRAWS_TO_MEASURE)
    clear = distance > math.log(CLEAR_ODDS)
    predicted = study.model.predict(
        toy.data.inputs, generator=torch.Generator().manual_seed(study.seed)
    ).probabilities.argmax(-1)
    return ToyNumbers(
        toy=toy.name,
        seed=study.seed,
        accuracy=_fraction(predicted == toy.data.labels),
        right_class=_fraction((evidence.mean.argmax(-1) == right)[clear]),
        spread_correlation=_rank_correlation(distance, evidence.spread.gather(1, right.unsqueeze(1))[:, 0]),
        dominance=_dominance(study),
        largest_cell=float(study.model.latent.get_buffer("cells").max()),
    )


def _dominance(study: Study) -> tuple[float, ...]:
    labels = study.toy.data.labels.unsqueeze(1)
    evidence = study.evidence(study.toy.data.inputs, draws=DRAWS_TO_MEASURE).mean.log()
    others = evidence.scatter(1, labels, -torch.inf).amax(1)
    ratio = evidence.gather(1, labels)[:, 0] - others
    return tuple(float(ratio[labels[:, 0] == k].mean().exp()) for k in range(len(study.toy.classes)))


def _fraction(flags: Tensor) -> float:
    return float(flags.double().mean())


def _rank_correlation(first: Tensor, second: Tensor) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(first.numpy(), second.numpy()).statistic)
