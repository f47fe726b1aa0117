"""Where the truth is known: Gaussian tasks, and points at which f_true, Bayes risk and density are exact."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from totalcal.data.gaussians import DEFAULT, Floats, GaussianTask
from totalcal.types import Batch

TASKS: dict[str, GaussianTask] = {
    "line": GaussianTask.isotropic([[-1.0], [1.0]], priors=[0.6, 0.4]),
    "plane": DEFAULT,
    "ten": GaussianTask.random(num_classes=4, dimensions=10, seed=0),
}
"""Two classes in 1 dimension, three in 2, four in 10; they overlap, and their priors differ."""

RARE = 1e-3
"""A point is out of the domain where p(x) < ε, section 2; only this share of the domain's own points is."""

_TEST_SEED, _BOX_SEED = 1_000_001, 1_000_002  # no training seed comes near


class Points(NamedTuple):
    """Points of a task with the truth: some from its own law, some where it has hardly any density."""

    inside: Tensor  # [n, dimensions]
    outside: Tensor  # [m, dimensions]
    true_probabilities: Floats  # [n, classes], at the points inside
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
