"""One call judges a predictor by its own predictive distribution, on a test set and foreign ones."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from totalcal.errors import InputError
from totalcal.scores import calibration, fit, selective
from totalcal.scores.arrays import Floats, Values, plain
from totalcal.scores.asking import ask
from totalcal.scores.blocks import Inputs, blocks
from totalcal.scores.checks import check_count, check_predictions
from totalcal.scores.foreign import OutputKind, from_arrays, swap_draws
from totalcal.scores.modes import eval_mode
from totalcal.scores.ranking import rank
from totalcal.scores.reliability import reliability
from totalcal.scores.smooth import smooth_ece
from totalcal.scores.verdict import OutOfDomain, Verdict
from totalcal.types import Predictor
from totalcal.uncertainties import UNCERTAINTIES, uncertainty_named


def evaluate(
    predictor: Predictor,
    test: Inputs,
    ood: Mapping[str, Inputs] | None = None,
    *,
    bins: int = 15,
    draws: int = 10,
    seed: int = 0,
    uncertainty: str = "entropy",
    batch_size: int = 256,
) -> Verdict:
    """Judge any predictor by its `predict`.

    `test` is a tuple (inputs, labels), a Dataset or batches of pairs; members of `ood` need no labels.
    `draws` and `seed` reach predictors whose `predict` takes `draws` and `generator`; every set starts from
    the same seed, so that no member of the panel moves another. Inputs are cut into blocks of `batch_size`
    rows whatever batches they come in.
    """
    uncertainty_named(uncertainty)
    check_count(batch_size, "batch_size")
    with eval_mode(predictor) if isinstance(predictor, nn.Module) else nullcontext():
        inside = _observe(predictor, test, draws, seed, batch_size)
        panel = {
            name: _observe(predictor, inputs, draws, seed, batch_size) for name, inputs in (ood or {}).items()
        }
    if inside.labels is None:
        raise InputError(
            "the test set has no labels; give it as (inputs, labels) or as batches of such pairs."
        )
    return Verdict(
        **_in_domain(inside.probabilities, inside.labels, bins),
        panel={name: _rank(inside, member) for name, member in panel.items()},
        uncertainty=uncertainty,
        draws=inside.draws,
        seed=seed,
        batch_size=batch_size,
    )


def evaluate_outputs(
    outputs: Values,
    labels: Values,
    kind: OutputKind,
    ood: Mapping[str, Values] | None = None,
    *,
    bins: int = 15,
    uncertainty: str = "entropy",
) -> Verdict:
    """Judge saved outputs, n × K or draws × n × K, of a stated kind.

    >>> verdict = evaluate_outputs([[0.9, 0.1], [0.2, 0.8]], [0, 1], "probabilities", {"noise": [[0.5, 0.5]]})
    >>> verdict.error, verdict.auroc
    (0.0, 1.0)
    """
    test = (swap_draws(torch.as_tensor(plain(outputs))), torch.as_tensor(plain(labels)))
    panel = {name: swap_draws(torch.as_tensor(plain(others))) for name, others in (ood or {}).items()}
    return evaluate(from_arrays(kind), test, panel, bins=bins, uncertainty=uncertainty)


class _Observed(NamedTuple):
    """What a set of inputs leaves: no draws, only their means and one number for each uncertainty."""

    probabilities: Floats
    labels: Tensor | None
    uncertainties: dict[str, Floats]
    draws: int


def _observe(predictor: Predictor, inputs: Inputs, draws: int, seed: int, size: int) -> _Observed:
    generator: torch.Generator | None = None
    probabilities: list[Tensor] = []
    labels: list[Tensor | None] = []
    scores: dict[str, list[Tensor]] = {name: [] for name in UNCERTAINTIES}
    drawn = 0
    for rows, truth in blocks(inputs, size):
        generator = generator or torch.Generator(rows.device).manual_seed(seed)
        predictive = ask(predictor, rows, draws, generator)
        probabilities.append(predictive.probabilities)
        labels.append(truth)
        for name, measure in UNCERTAINTIES.items():
            scores[name].append(measure(predictive))
        drawn = predictive.draws
    if not probabilities:
        raise InputError("a set of inputs is empty; a score needs at least one example.")
    known = [truth for truth in labels if truth is not None]
    return _Observed(
        plain(torch.cat(probabilities)),
        torch.cat(known) if known else None,
        {name: plain(torch.cat(values)) for name, values in scores.items()},
        drawn,
    )


def _in_domain(probabilities: Floats, labels: Tensor, bins: int) -> dict[str, Any]:
    array, truth = check_predictions(probabilities, labels)
    confidence, mistakes = array.max(axis=1), array.argmax(axis=1) != truth
    return {
        "error": fit.error(array, truth),
        "nll": fit.nll(array, truth),
        "brier": fit.brier(array, truth),
        "ece": calibration.ece(array, truth, bins),
        "ece_100": calibration.ece(array, truth, 100),
        "ece_classwise": calibration.classwise_ece(array, truth, bins),
        "ece_debiased": calibration.debiased_calibration_error(array, truth, bins),
        "ece_smooth": smooth_ece(array, truth),
        "reliability": reliability(array, truth, bins),
        "aurc": selective.aurc(confidence, mistakes),
        "excess_aurc": selective.excess_aurc(confidence, mistakes),
        "augrc": selective.augrc(confidence, mistakes),
        "majority_error": 1 - float(np.bincount(truth).max()) / len(truth),
        "examples": len(truth),
        "classes": array.shape[1],
    }


def _rank(inside: _Observed, outside: _Observed) -> OutOfDomain:
    rankings = {name: rank(inside.uncertainties[name], outside.uncertainties[name]) for name in UNCERTAINTIES}
    return OutOfDomain(len(outside.probabilities), rankings)
