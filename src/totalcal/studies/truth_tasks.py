"""Where the truth is known: Gaussian tasks with exact probabilities, and all models and baselines on them.

All have the same net, optimiser and number of steps.
"""

from functools import cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from totalcal.backbones import mlp
from totalcal.baselines import BASELINES
from totalcal.data.synthetic import DEFAULT, Floats, GaussianTask
from totalcal.models import MODELS
from totalcal.process import TuringProcess
from totalcal.remembering import remember
from totalcal.training.step import train
from totalcal.types import Batch, ContextUse, Predictor

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


def trained(data: Batch, num_classes: int, steps: int, seed: int) -> dict[str, Predictor]:
    """Every model and baseline, by name. The plain net is trained once for all who want the same one."""
    cut = len(data.labels) - len(data.labels) // HELD_OUT
    rows, held_out = Batch(data.inputs[:cut], data.labels[:cut]), Batch(data.inputs[cut:], data.labels[cut:])
    fit = cache(partial(fitted, rows, num_classes, steps))

    def train_net(member: int = 0, dropout: float = 0.0) -> nn.Module:
        return fit("softmax", seed + 1000 * member, dropout).backbone

    models = {name: _with_context(remembering(fit(name, seed, 0.0), rows, held_out), rows) for name in MODELS}
    return models | {name: build(train_net, held_out) for name, build in BASELINES.items()}


def remembering(model: TuringProcess, rows: Batch, held_out: Batch) -> TuringProcess:
    """The model with a memory of its domain: the rows it was trained on, and the held-out ones to rank by."""
    remember(model, rows, held_out, progress=False)
    return model


def fitted(
    rows: Batch, num_classes: int, steps: int, name: str, seed: int, dropout: float = 0.0
) -> TuringProcess:
    """One model after about so many gradient steps; everything random comes from the seed."""
    steps_per_epoch = -(-len(rows.labels) // BATCH_SIZE)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # initial weights and dropout know torch's own generator only
        model = MODELS[name](mlp(rows.inputs.shape[1], num_classes, HIDDEN, dropout), num_classes)
        train(
            model,
            *rows,
            epochs=max(1, round(steps / steps_per_epoch)),
            learning_rate=LEARNING_RATE,
            batch_size=BATCH_SIZE,
            generator=torch.Generator().manual_seed(seed),
        )
    return model


def _with_context(model: TuringProcess, rows: Batch) -> Predictor:
    """A model that cannot predict without a context gets some of its training rows."""
    if model.context_use is ContextUse.REQUIRED:
        return model.given(Batch(rows.inputs[:CONTEXT], rows.labels[:CONTEXT]))
    return model
