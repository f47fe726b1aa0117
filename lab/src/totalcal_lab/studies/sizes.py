"""Do the terms of the variance vanish with data? Each model of the family on ever larger training sets.

The reducible term is what other weights would say, so a posterior's falls as 1/N. On the generated task the
truth is a multinomial logistic regression of the right features, whose posterior is close to a Gaussian from
some dozens of rows on: it is shown beside the models. The irreducible term is that of the class
probabilities at known weights; this posterior has none.

Each model trains for as many steps whatever N is: a mean-field variance needs thousands of them to come from
where it starts to where the bound has it.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import softmax
from torch import nn

from totalcal.models import MODELS
from totalcal.nets import BACKBONES, mlp
from totalcal.scores import Floats, nll
from totalcal.training import TensorSource, with_context
from totalcal.types import Batch
from totalcal_lab.backbones.nets import lenet5
from totalcal_lab.data.domain import TaskOptions
from totalcal_lab.data.tasks import task
from totalcal_lab.studies.truth import CONTEXT, HIDDEN, TASKS, fitted, training_set

POSTERIOR = "posterior"
_PRIOR_DEVIATION = 10.0
_NEWTON_STEPS, _CONVERGED = 100, 1e-9


class Sweep(NamedTuple):
    """One task, its sizes, and how each model is trained."""

    sizes: tuple[int, ...]
    steps: int
    learning_rate: float
    net: Callable[[], nn.Module]


SWEEPS: dict[str, Sweep] = {
    "plane": Sweep((50, 500, 5_000, 50_000), 3_000, 3e-3, partial(mlp, 2, 3, HIDDEN)),
    "digits": Sweep((50, 250, 1_150), 2_000, 3e-3, partial(BACKBONES["small_convnet"], num_classes=10)),
    "fashion": Sweep((100, 2_000, 50_000), 1_000, 1e-3, partial(lenet5, 10)),
}
"""The generated classes of the truth study, digits, and Fashion-MNIST with the paper's net."""

TEST_ROWS, DRAWS = 2_000, 20
_SMALL_BATCH = 500


def measure_sizes(
    name: str,
    seed: int,
    done: Sequence[tuple[int, str]] = (),
    data_dir: Path | None = None,
    sweep: Sweep | None = None,
) -> Iterator[dict[str, Any]]:
    """A line per size and model: means over test rows of the three terms, and the NLL.

    Args:
        name: One of `SWEEPS`.
        seed: Of the training set, the weights and the draws.
        done: (examples, model) of lines that are there already: they are not made again.
        data_dir: A folder that holds the sets.
        sweep: In the place of the one by that name.
    """
    chosen = sweep or SWEEPS[name]
    models = (*MODELS, POSTERIOR) if name in TASKS else tuple(MODELS)
    for examples in chosen.sizes:
        missing = [model for model in models if (examples, model) not in done]
        if missing:
            rows, test, classes = _data(name, examples, seed, data_dir)
        for model in missing:
            yield {
                "task": name,
                "preset": "sizes",
                "model": model,
                "seed": seed,
                "epochs": 0,
                "settings": {"steps": chosen.steps},
                "examples": examples,
                **_measured(model, rows, test, classes, chosen, seed),
            }


def _data(name: str, examples: int, seed: int, data_dir: Path | None) -> tuple[Batch, Batch, int]:
    if name in TASKS:
        generated = TASKS[name].sample(TEST_ROWS, seed=2_000_000)
        test = Batch(torch.as_tensor(generated.inputs), torch.as_tensor(generated.labels))
        return training_set(TASKS[name], examples, seed), test, TASKS[name].num_classes
    options = TaskOptions(train_limit=examples, test_limit=TEST_ROWS, panel=())
    data = task(name).load(seed, data_dir, options)
    return data.train.whole(), data.test.whole(), task(name).num_classes


def _measured(
    model: str, rows: Batch, test: Batch, classes: int, chosen: Sweep, seed: int
) -> dict[str, float]:
    if model == POSTERIOR:
        drawn = logistic_posterior(rows.inputs.numpy(), rows.labels.numpy(), test.inputs.numpy(), seed=seed)
        return {**terms_of_draws(drawn), "nll": nll(drawn.mean(0), test.labels)}
    process = fitted(
        rows, classes, chosen.steps, model, seed, net=chosen.net, learning_rate=chosen.learning_rate
    )
    predictor = with_context(process.eval(), TensorSource(*rows), min(CONTEXT, len(rows.labels)))
    found = [predictor.predict(part, draws=DRAWS, seed=seed) for part in test.inputs.split(_SMALL_BATCH)]
    terms = [each.decompose().summed() for each in found]
    means = {
        name: float(torch.cat([getattr(term, name) for term in terms]).mean())
        for name in ("reducible", "irreducible", "data")
    }
    return {**means, "nll": nll(torch.cat([each.probabilities for each in found]), test.labels)}


def logistic_posterior(inputs: Floats, labels: Any, at: Floats, seed: int = 0, draws: int = 500) -> Floats:
    """Draws of the class probabilities at some points: draws × points × classes.

    The weights of 1, x and |x|² per class have a prior N(0, 10²) and a posterior by Laplace's method. Classes
    that are Gaussian spheres have log-odds of just these features.

    >>> found = logistic_posterior(np.array([[-1.0], [1.0]]), np.array([0, 1]), np.array([[0.0]]), draws=3)
    >>> found.shape
    (3, 1, 2)
    """
    features, classes = _features(inputs), int(np.max(labels)) + 1
    targets = np.eye(classes)[np.asarray(labels)]
    width = features.shape[1]
    precision = np.eye(width * classes) / _PRIOR_DEVIATION**2
    weights = np.zeros(width * classes)

    def objective(at: Floats) -> float:
        logits = features @ at.reshape(classes, width).T
        log_sums = np.logaddexp.reduce(logits, axis=1)
        return float(log_sums.sum() - (targets * logits).sum() + at @ precision @ at / 2)

    for _ in range(_NEWTON_STEPS):
        found = softmax(features @ weights.reshape(classes, width).T, axis=-1)
        gradient = ((found - targets).T @ features).ravel() + precision @ weights
        curvature = _curvature(features, found) + precision
        step, length, before = np.linalg.solve(curvature, gradient), 1.0, objective(weights)
        while objective(weights - length * step) > before and length > _CONVERGED:
            length /= 2
        weights = weights - length * step
        if np.abs(step).max() < _CONVERGED:
            break
    root = np.linalg.cholesky(np.linalg.inv(curvature))
    normal = np.random.default_rng(seed).standard_normal((draws, len(weights)))
    drawn = (weights + normal @ root.T).reshape(draws, classes, width)
    return np.asarray(softmax(np.einsum("nf,skf->snk", _features(at), drawn), axis=-1))


def _features(inputs: Floats) -> Floats:
    rows = np.asarray(inputs, dtype=np.float64)
    return np.column_stack([np.ones(len(rows)), rows, (rows**2).sum(1)])


def _curvature(features: Floats, found: Floats) -> Floats:
    """Σ_n (diag p_n − p_n p_nᵀ) ⊗ x_n x_nᵀ."""
    classes, width = found.shape[1], features.shape[1]
    blocks = np.zeros((classes, width, classes, width))
    for one in range(classes):
        for other in range(classes):
            weight = found[:, one] * ((one == other) - found[:, other])
            blocks[one, :, other] = (features * weight[:, None]).T @ features
    return blocks.reshape(classes * width, classes * width)


def terms_of_draws(drawn: Floats) -> dict[str, float]:
    """The terms of draws of known probabilities, summed over classes, as `Predictive.decompose` has them."""
    return {
        "reducible": float(drawn.var(0, ddof=1).sum(1).mean()),
        "irreducible": 0.0,
        "data": float((drawn * (1 - drawn)).mean(0).sum(1).mean()),
    }
