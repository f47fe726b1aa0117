"""Every model and rival against a truth that is known (sections 2 to 4): what the paper has to approximate.

On generated data f_true, the Bayes risk and the density are exact. Over several sizes N of the training set
the study also tests what sections 3 and 4 claim: that the reducible term shrinks with N, that the irreducible
one does not, and that the variance grows with the distance from the training data.
"""

from typing import NamedTuple

import numpy as np
import torch

from totalcal.data.gaussians import Floats
from totalcal.scores.ranking import auroc
from totalcal.studies.truth_measures import (
    by_distance,
    distance_to,
    kl_to_truth,
    rank_correlation,
    risk_ceiling,
)
from totalcal.studies.truth_points import TASKS, points, training_set
from totalcal.studies.truth_training import trained
from totalcal.types import Predictive

DISTANCE_SLICES = 10


class Plan(NamedTuple):
    """How much is computed."""

    tasks: tuple[str, ...] = tuple(TASKS)
    examples: int = 800
    sweep: tuple[int, ...] = (50, 200, 800, 3200)
    sweep_task: str = "plane"
    seeds: int = 3
    steps: int = 500
    points: int = 2000
    draws: int = 20

    @property
    def cells(self) -> list[tuple[str, int, int]]:
        """(task, examples, seed) of every training set, none twice."""
        sizes = [(task, self.examples) for task in self.tasks]
        sizes += [(self.sweep_task, examples) for examples in self.sweep]
        return [(task, size, seed) for task, size in dict.fromkeys(sizes) for seed in range(self.seeds)]


QUICK = Plan(
    tasks=("line",), examples=60, sweep=(40, 60), sweep_task="line", seeds=2, steps=10, points=200, draws=4
)


class Measurement(NamedTuple):
    """One predictor, trained on one set, against the truth."""

    task: str
    model: str
    examples: int
    seed: int
    kl: float
    """To f_true, in nats."""
    risk_correlation: float
    """Rank correlation of the data term with the Bayes risk."""
    risk_ceiling: float
    """What f_true itself reaches there."""
    auroc: float
    """Of points with hardly any density, by entropy; they are the positive class."""
    auroc_mutual_information: float
    reducible: float
    irreducible: float
    data: float
    """Means over test points of the three terms, summed over classes."""
    distance_correlation: float
    """Rank correlation of reducible + irreducible with the distance from the training data, in and out."""
    variance_by_distance: tuple[tuple[float, float], ...]
    """The same as a curve: mean distance and mean variance in slices of equally many points."""


def run(plan: Plan, jobs: int = 1) -> list[Measurement]:
    """All measurements of a plan; the training sets are spread over `jobs` processes."""
    from joblib import Parallel, delayed

    found = Parallel(n_jobs=jobs)(delayed(measure_cell)(plan, *cell) for cell in plan.cells)
    return [measurement for cell in found for measurement in cell]


def measure_cell(plan: Plan, task_name: str, examples: int, seed: int) -> list[Measurement]:
    """Every model and rival on one training set."""
    task = TASKS[task_name]
    where = points(task, plan.points)
    data = training_set(task, examples, seed)
    distance = distance_to(data.inputs, torch.cat([where.inside, where.outside]))
    measurements = []
    for name, predictor in trained(data, task.num_classes, plan.steps, seed).items():
        generator = torch.Generator().manual_seed(seed)
        inside, outside = (
            predictor.predict(inputs, draws=plan.draws, generator=generator) for inputs in where[:2]
        )
        terms = inside.decompose().summed()
        variance = _model_variance(inside, outside)
        measurements.append(
            Measurement(
                task=task_name,
                model=name,
                examples=examples,
                seed=seed,
                kl=kl_to_truth(where.true_probabilities, inside.probabilities.numpy()),
                risk_correlation=rank_correlation(terms.data.numpy(), where.bayes_risk),
                risk_ceiling=risk_ceiling(where.true_probabilities),
                auroc=auroc(inside.entropy, outside.entropy),
                auroc_mutual_information=auroc(inside.mutual_information, outside.mutual_information),
                reducible=float(terms.reducible.mean()),
                irreducible=float(terms.irreducible.mean()),
                data=float(terms.data.mean()),
                distance_correlation=rank_correlation(variance, distance),
                variance_by_distance=by_distance(distance, variance, DISTANCE_SLICES),
            )
        )
    return measurements


def _model_variance(inside: Predictive, outside: Predictive) -> Floats:
    """Reducible and irreducible at all points: what is left of the variance without the data's own."""
    terms = [predictive.decompose().summed() for predictive in (inside, outside)]
    return np.concatenate([(term.reducible + term.irreducible).numpy() for term in terms])
