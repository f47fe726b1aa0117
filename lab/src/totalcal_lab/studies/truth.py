"""Every model and baseline against a truth that is known (sections 2 to 4): what the paper must estimate.

On Gaussian tasks f_true, the Bayes risk and the density are exact. Everybody has the same net, optimiser and
number of steps. Over several sizes N of the training set the study also tests what sections 3 and 4 claim:
that the reducible term shrinks with N, that the irreducible one does not, and that the variance grows with
the distance from the training data.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from totalcal.memory import remember
from totalcal.models import MODELS, TuringProcess
from totalcal.nets import mlp
from totalcal.report import Summary, summarise
from totalcal.scores import auroc
from totalcal.training import TensorSource, train, with_context
from totalcal.types import Batch, Predictive, Predictor
from totalcal_lab.backbones.baselines import BASELINES
from totalcal_lab.data.synthetic import DEFAULT, Floats, GaussianTask

TASKS: dict[str, GaussianTask] = {
    "line": GaussianTask.isotropic([[-1.0], [1.0]], priors=[0.6, 0.4]),
    "plane": DEFAULT,
    "ten": GaussianTask.random(num_classes=4, dimensions=10, seed=0),
}
"""Two classes in 1 dimension, three in 2, four in 10; they overlap, and their priors differ."""

RARE = 1e-3
"""A point is out of the domain where p(x) < ε, section 2; only this share of the domain's own points is."""

_TEST_SEED, _BOX_SEED = 1_000_001, 1_000_002  # no training seed comes near

HIDDEN = (32, 32)
BATCH_SIZE, LEARNING_RATE = 64, 3e-3
CONTEXT = 50
HELD_OUT = 5  # one of so many examples is held out for the baselines that need it; nobody trains on it
PREDICTORS = (*MODELS, *BASELINES)


class Points(NamedTuple):
    """Points of a task with the truth: of its own distribution, and where it has hardly any density."""

    in_distribution: Tensor  # [n, dimensions]
    ood: Tensor  # [m, dimensions]
    true_probabilities: Floats  # [n, classes], at the points of the task
    bayes_risk: Floats  # [n]


def points(task: GaussianTask, count: int) -> Points:
    """Test points of the task, and as many from a box three times as wide, kept where p(x) < ε."""
    inputs = task.sample(count, _TEST_SEED).inputs
    threshold = np.quantile(task.log_density(inputs), RARE)
    return Points(
        torch.as_tensor(inputs),
        torch.as_tensor(_rare_points(task, inputs, float(threshold), count)),
        task.true_probabilities(inputs),
        task.bayes_risk(inputs),
    )


def training_set(task: GaussianTask, examples: int, seed: int) -> Batch:
    """Examples to learn from, as tensors."""
    data = task.sample(examples, seed)
    return Batch(torch.as_tensor(data.inputs), torch.as_tensor(data.labels))


def _rare_points(task: GaussianTask, inputs: np.ndarray, threshold: float, count: int) -> np.ndarray:
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    random = np.random.default_rng(_BOX_SEED)
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < count:
        box = random.uniform(2 * low - high, 2 * high - low, size=(count, task.dimensions))
        kept.append(box[task.log_density(box) < threshold])
    return np.concatenate(kept)[:count].astype(np.float32)


def trained(data: Batch, num_classes: int, steps: int, seed: int) -> dict[str, Predictor]:
    """Every model and baseline, by name. The plain net is trained once for all who want the same one."""
    cut = len(data.labels) - len(data.labels) // HELD_OUT
    rows, held_out = Batch(data.inputs[:cut], data.labels[:cut]), Batch(data.inputs[cut:], data.labels[cut:])
    fit = cache(partial(fitted, rows, num_classes, steps))

    def train_net(member: int = 0, dropout: float = 0.0) -> nn.Module:
        return fit("softmax", seed + 1000 * member, dropout).backbone

    models = {}
    for name in MODELS:
        model = fit(name, seed, 0.0)
        remember(model, rows, held_out, progress=False)
        models[name] = with_context(model, TensorSource(*rows), CONTEXT)
    return models | {name: build(train_net, held_out) for name, build in BASELINES.items()}


def fitted(
    rows: Batch,
    num_classes: int,
    steps: int,
    name: str,
    seed: int,
    dropout: float = 0.0,
    net: Callable[[], nn.Module] | None = None,
    learning_rate: float = LEARNING_RATE,
) -> TuringProcess:
    """One model after about so many gradient steps; everything random comes from the seed.

    `net` makes another net than the one that all predictors of this study share.
    """
    steps_per_epoch = -(-len(rows.labels) // BATCH_SIZE)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # initial weights and dropout know torch's own generator only
        backbone = mlp(rows.inputs.shape[1], num_classes, HIDDEN, dropout) if net is None else net()
        model = MODELS[name](backbone, num_classes)
        train(
            model,
            *rows,
            epochs=max(1, round(steps / steps_per_epoch)),
            learning_rate=learning_rate,
            batch_size=BATCH_SIZE,
            generator=torch.Generator().manual_seed(seed),
        )
    return model


DISTANCE_SLICES = 10
HALVED = 0.5


class StudyPlan(NamedTuple):
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
    def training_sets(self) -> list[tuple[str, int, int]]:
        """(task, examples, seed) of every training set, none twice."""
        sizes = [(task, self.examples) for task in self.tasks]
        sizes += [(self.sweep_task, examples) for examples in self.sweep]
        return [(task, size, seed) for task, size in dict.fromkeys(sizes) for seed in range(self.seeds)]


QUICK = StudyPlan(
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
    auroc_familiarity: float
    """By how unfamiliar the points are; NaN for a baseline, which has no memory of its domain."""
    reducible: float
    irreducible: float
    data: float
    """Means over test points of the three terms, summed over classes."""
    distance_correlation: float
    """Rank correlation of reducible + irreducible with the distance from the training data, in and out."""
    variance_by_distance: tuple[tuple[float, float], ...]
    """The same as a curve: mean distance and mean variance in slices of equally many points."""


def measured(plan: StudyPlan, jobs: int = 1) -> list[Measurement]:
    """All measurements of a plan; the training sets are spread over `jobs` processes."""
    from joblib import Parallel, delayed

    found = Parallel(n_jobs=jobs)(delayed(measure)(plan, *chosen) for chosen in plan.training_sets)
    return [measurement for cell in found for measurement in cell]


def measure(plan: StudyPlan, task_name: str, examples: int, seed: int) -> list[Measurement]:
    """Every model and baseline on one training set."""
    task = TASKS[task_name]
    where = points(task, plan.points)
    data = training_set(task, examples, seed)
    distance = distance_to(data.inputs, torch.cat([where.in_distribution, where.ood]))
    measurements = []
    for name, predictor in trained(data, task.num_classes, plan.steps, seed).items():
        in_distribution, ood = (
            predictor.predict(inputs, draws=plan.draws, seed=seed) for inputs in where[:2]
        )
        terms = in_distribution.decompose().summed()
        variance = _model_variance(in_distribution, ood)
        measurements.append(
            Measurement(
                task=task_name,
                model=name,
                examples=examples,
                seed=seed,
                kl=kl_to_truth(where.true_probabilities, in_distribution.probabilities.numpy()),
                risk_correlation=rank_correlation(terms.data.numpy(), where.bayes_risk),
                risk_ceiling=risk_ceiling(where.true_probabilities),
                auroc=auroc(in_distribution.entropy, ood.entropy),
                auroc_mutual_information=auroc(in_distribution.mutual_information, ood.mutual_information),
                auroc_familiarity=_by_familiarity(in_distribution, ood),
                reducible=float(terms.reducible.mean()),
                irreducible=float(terms.irreducible.mean()),
                data=float(terms.data.mean()),
                distance_correlation=rank_correlation(variance, distance),
                variance_by_distance=by_distance(distance, variance, DISTANCE_SLICES),
            )
        )
    return measurements


def _by_familiarity(in_distribution: Predictive, ood: Predictive) -> float:
    if in_distribution.domain is None or ood.domain is None:
        return math.nan
    return auroc(in_distribution.unfamiliarity, ood.unfamiliarity)


def _model_variance(in_distribution: Predictive, ood: Predictive) -> Floats:
    """Reducible and irreducible at all points: what is left of the variance without the data's own."""
    terms = [predictive.decompose().summed() for predictive in (in_distribution, ood)]
    return np.concatenate([(term.reducible + term.irreducible).numpy() for term in terms])


def kl_to_truth(truth: Floats, predicted: Floats) -> float:
    """E_x KL(Cat(f_true(x)) ‖ Cat(h(x))), the misfit of section 2, exact at each x.

    >>> kl_to_truth(np.array([[0.5, 0.5]]), np.array([[0.5, 0.5]]))
    0.0
    """
    from scipy.special import rel_entr

    return float(rel_entr(truth, predicted).sum(axis=1).mean())


def rank_correlation(left: Floats, right: Floats) -> float:
    """Spearman's ρ; NaN where one of the two is constant, because then nothing is ranked."""
    from scipy.stats import spearmanr

    if np.ptp(left) == 0 or np.ptp(right) == 0:
        return float("nan")
    return float(spearmanr(left, right).statistic)


def risk_ceiling(truth: Floats) -> float:
    """The rank correlation with the Bayes risk that f_true itself reaches by its own data term Σ_k f (1 − f).

    Below 1 for more than two classes: the sum is no monotone function of 1 − max f.

    >>> risk_ceiling(np.array([[0.5, 0.25, 0.25], [0.45, 0.45, 0.1], [1.0, 0.0, 0.0]]))
    0.5
    """
    return rank_correlation((truth * (1 - truth)).sum(axis=1), 1 - truth.max(axis=1))


def distance_to(data: Tensor, inputs: Tensor) -> Floats:
    """min over the training points of ‖x − x_n‖, section 4."""
    from sklearn.neighbors import NearestNeighbors

    distance, _ = NearestNeighbors(n_neighbors=1).fit(data.numpy()).kneighbors(inputs.numpy())
    return np.asarray(distance[:, 0], dtype=np.float64)


def by_distance(distance: Floats, values: Floats, slices: int) -> tuple[tuple[float, float], ...]:
    """Mean distance and mean value in slices of equally many points, the nearest first.

    >>> by_distance(np.array([3.0, 1.0, 2.0, 4.0]), np.array([0.3, 0.1, 0.2, 0.4]), slices=2)
    ((1.5, 0.15...), (3.5, 0.35))
    """
    parts = np.array_split(np.argsort(distance, kind="stable"), slices)
    return tuple((float(distance[part].mean()), float(values[part].mean())) for part in parts)


class Claim(NamedTuple):
    """One predictor and the three claims; a ratio is NaN where the predictor has no such term."""

    model: str
    reducible_ratio: float
    """The mean reducible term at the largest N to that at the smallest."""
    irreducible_ratio: float
    """The same of the irreducible term."""
    distance_ratio: float
    """Mean reducible + irreducible in the farthest slice of points to the nearest, at the largest N."""
    distance_correlation: Summary
    """Rank correlation of the same with the distance: a few points of high variance do not move it."""

    @property
    def reducible_shrinks(self) -> bool | None:
        """Whether it at least halves over the sweep."""
        return None if math.isnan(self.reducible_ratio) else self.reducible_ratio <= HALVED

    @property
    def irreducible_stays(self) -> bool | None:
        """Whether it does not halve over the sweep."""
        return None if math.isnan(self.irreducible_ratio) else self.irreducible_ratio > HALVED

    @property
    def variance_grows(self) -> bool | None:
        """Whether the variance is higher on average far from the training data than near it."""
        return None if math.isnan(self.distance_ratio) else self.distance_ratio > 1

    def to_dict(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "distance_correlation": self.distance_correlation._asdict(),
            "reducible_shrinks": self.reducible_shrinks,
            "irreducible_stays": self.irreducible_stays,
            "variance_grows": self.variance_grows,
        }


def claims(found: Sequence[Measurement], plan: StudyPlan) -> list[Claim]:
    """The three claims, for every predictor of the sweep."""
    rows = [row for row in found if row.task == plan.sweep_task]
    return [
        _claim(model, [row for row in rows if row.model == model], plan)
        for model in dict.fromkeys(row.model for row in rows)
    ]


def _claim(model: str, rows: Sequence[Measurement], plan: StudyPlan) -> Claim:
    fewest = [row for row in rows if row.examples == min(plan.sweep)]
    most = [row for row in rows if row.examples == max(plan.sweep)]
    return Claim(
        model,
        _ratio([row.reducible for row in most], [row.reducible for row in fewest]),
        _ratio([row.irreducible for row in most], [row.irreducible for row in fewest]),
        _ratio(
            [row.variance_by_distance[-1][1] for row in most],
            [row.variance_by_distance[0][1] for row in most],
        ),
        summarise(row.distance_correlation for row in most),
    )


def _ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Of the means over seeds."""
    return sum(above) / sum(below) if sum(below) > 0 else math.nan
