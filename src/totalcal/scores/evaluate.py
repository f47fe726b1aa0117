"""One call judges a predictor by its own predictive distribution: on a test set and on OOD sets.

Or what it left: outputs in arrays, or in .npz files of `labels` and one array whose name states its kind.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from totalcal.errors import InputError, ShapeError, UnknownNameError
from totalcal.inputs import Inputs
from totalcal.scores import calibration, fit, ranking
from totalcal.scores.arrays import (
    Floats,
    Values,
    check_count,
    check_predictions,
    class_names,
    label_vector,
    plain,
)
from totalcal.scores.calibration import reliability, smooth_ece
from totalcal.scores.external import OutputKind, eval_mode, from_arrays, swap_draws, takes_draws
from totalcal.scores.outputs import read_outputs
from totalcal.scores.ranking import rank
from totalcal.scores.streaming import Rows, labelled_blocks, numbered
from totalcal.scores.verdict import Observations, Observed, OutOfDistribution, Verdict
from totalcal.types import Draws, Predictive, Predictor
from totalcal.uncertainties import uncertainties_of


def evaluate(
    predictor: Predictor,
    test: Rows,
    ood: Mapping[str, Rows] | None = None,
    *,
    bins: int = 15,
    draws: Draws = "auto",
    seed: int = 0,
    uncertainty: str = "entropy",
    batch_size: int = 256,
) -> Verdict:
    """All scores of a predictor on test rows and OOD sets, by its `predict(inputs, draws=…, seed=…)`.

    What is judged is what is deployed: draws are those of the seed for every row of every set, and by default
    those that the predictor takes by itself. Every net that the predictor holds is in eval mode meanwhile,
    and in its own mode afterwards. Inputs are cut into blocks of `batch_size` rows whatever batches they come
    in.

    Args:
        predictor: A model of the family, a baseline, or what `from_module` and the like make of others.
        test: A tuple (inputs, labels), a Dataset, or batches of such pairs or of mappings with `labels`. In a
            tuple, labels may be names of the predictor's `classes`.
        ood: Out-of-distribution sets by name, the one the task is known by first; labels are not needed, and
            a tuple of as many tensors as the test inputs are is inputs.
        bins: Bins of the calibration error, of equal width.
        draws: Draws of θ per prediction, 0, or "moments"; "auto" as the predictor does by itself.
        seed: What the draws are a function of.
        uncertainty: The one that tells OOD inputs apart: a key of `UNCERTAINTIES`, `unfamiliarity` of a model
            that remembers its domain, or a score that the predictor brings along.
        batch_size: Rows per call of `predict`.

    Returns:
        A `Verdict`: all scores, and in `observed` what was predicted for each row.

    Raises:
        InputError: The test set has no labels, a set is empty, or `predict` is not that of a Predictor.
        ShapeError: Labels do not match inputs, or an OOD set's predictions have another number of classes.

    Example:
        >>> noise = torch.Generator().manual_seed(0)
        >>> inputs = torch.randn(8, 2, generator=noise)
        >>> verdict = evaluate(from_arrays("logits"), (inputs, inputs.argmax(1)), {"flat": torch.zeros(4, 2)})
        >>> verdict.error, verdict.auroc
        (0.0, 1.0)
    """
    check_count(batch_size, "batch_size")
    if (
        not isinstance(predictor, Predictor)
        or hasattr(predictor, "predict_proba")  # a pipeline's takes anything
        or not takes_draws(predictor.predict)
    ):
        raise InputError(
            f"a {type(predictor).__name__} has no predict(inputs, *, draws, seed, context). {_WRAP}"
        )
    predictor = predictor.snapshot() if hasattr(predictor, "snapshot") else predictor  # blocks of one memory
    with eval_mode(predictor):
        observe = partial(_observe, predictor, draws=draws, seed=seed, size=batch_size)
        rows = numbered(test, class_names(predictor))
        in_distribution, like = observe(rows, labelled=True, uncertainty=uncertainty)
        panel = {name: observe(rows, labelled=False, like=like)[0] for name, rows in (ood or {}).items()}
    for name, member in panel.items():
        if member.classes != in_distribution.classes:
            raise ShapeError(
                f"the OOD set {name!r} has {member.classes} classes, but the test set has "
                f"{in_distribution.classes}: both must come from the same predictor."
            )
    return Verdict(
        **_in_distribution(in_distribution, bins),
        panel={
            name: OutOfDistribution(
                len(member),
                {
                    score: rank(values, member.uncertainties[score])
                    for score, values in in_distribution.uncertainties.items()
                },
            )
            for name, member in panel.items()
        },
        uncertainty=uncertainty,
        sampling=in_distribution.sampling,
        seed=seed,
        batch_size=batch_size,
        observed=Observations(in_distribution, panel),
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
    """Judge saved outputs of any framework.

    Args:
        outputs: n × K, or draws × n × K.
        labels: One integer in 0 … K − 1 per row.
        kind: What the outputs are: logits, probabilities, concentration or log_concentration.
        ood: Outputs of the same kind for out-of-distribution sets, by name.
        bins: Bins of the calibration error, of equal width.
        uncertainty: The one that tells OOD inputs apart: a key of `UNCERTAINTIES`, `unfamiliarity` of a model
            that remembers its domain, or a score that the predictor brings along.

    Returns:
        A `Verdict`, as `evaluate` gives it.

    Raises:
        InputError: The outputs are not of the stated kind.
        ShapeError: Shapes do not fit together, or an OOD set has another number of classes.

    Example:
        >>> saved = [[0.9, 0.1], [0.2, 0.8]]
        >>> verdict = evaluate_outputs(saved, [0, 1], "probabilities", {"noise": [[0.5, 0.5]]})
        >>> verdict.error, verdict.auroc
        (0.0, 1.0)
    """
    rows = swap_draws(torch.as_tensor(plain(outputs)))
    test = rows, torch.as_tensor(label_vector(labels, len(rows), rows.shape[-1]))
    panel = {name: swap_draws(torch.as_tensor(plain(others))) for name, others in (ood or {}).items()}
    return evaluate(from_arrays(kind), test, panel, bins=bins, uncertainty=uncertainty)


def log_likelihoods(predictive: Predictive, labels: Tensor) -> Floats:
    """log p(y | x) per row, also where p is below the smallest float64 and would be taken for 0."""
    chosen = labels.to(predictive.probabilities.device)[:, None]
    p = plain(predictive.probabilities.gather(1, chosen).squeeze(1))
    small = p < np.finfo(np.float64).tiny
    if not small.any():
        return np.asarray(np.log(p))
    exact = predictive.belief.log_mean.logsumexp(0).gather(1, chosen).squeeze(1)
    return np.where(small, plain(exact) - np.log(predictive.draws), np.log(np.where(small, 1.0, p)))


def _observe(
    predictor: Predictor,
    data: Rows,
    *,
    draws: Draws,
    seed: int,
    size: int,
    labelled: bool,
    like: Inputs | None = None,
    uncertainty: str = "entropy",
) -> tuple[Observed, Inputs]:
    """What is predicted for each row of a set, and some of its inputs; labels of an OOD set mean nothing."""
    seen: list[Observed] = []
    for rows, truth in labelled_blocks(data, size, like):
        if labelled and truth is None:
            raise InputError(
                "the test set has no labels; give it as (inputs, labels) or as batches of such pairs, "
                "with one integer per row for labels."
            )
        predictive: object = predictor.predict(rows, draws=draws, seed=seed)
        if not isinstance(predictive, Predictive):
            raise InputError(
                f"`predict` of a {type(predictor).__name__} must return a Predictive, "
                f"but it returned a {type(predictive).__name__}. {_WRAP}"
            )
        known = truth if labelled else None
        numbers = None if known is None else label_vector(known, *predictive.probabilities.shape)
        seen.append(
            Observed(
                probabilities=plain(predictive.probabilities),
                uncertainties={name: plain(each) for name, each in uncertainties_of(predictive).items()},
                terms=plain(torch.stack(predictive.decompose().summed(), dim=-1)),
                sampling=predictive.sampling,
                labels=numbers,
                log_likelihoods=None
                if numbers is None
                else log_likelihoods(predictive, torch.as_tensor(numbers)),
            )
        )
        if uncertainty not in seen[0].uncertainties:  # a predictor may bring its own: the first block tells
            raise UnknownNameError("uncertainty", uncertainty, seen[0].uncertainties)
        like = rows
    if not seen or like is None:
        raise InputError("a set of inputs is empty; a score needs at least one example.")
    return Observed.joined(seen), like


def _in_distribution(seen: Observed, bins: int) -> dict[str, Any]:
    assert seen.labels is not None
    assert seen.log_likelihoods is not None
    array, truth = check_predictions(seen.probabilities, seen.labels)
    confidence, mistakes = array.max(axis=1), array.argmax(axis=1) != truth
    return {
        "error": fit.error(array, truth),
        "nll": float(-seen.log_likelihoods.mean()),
        "brier": fit.brier(array, truth),
        "ece": calibration.ece(array, truth, bins),
        "ece_100": calibration.ece(array, truth, 100),
        "ece_classwise": calibration.classwise_ece(array, truth, bins),
        "ece_debiased": calibration.debiased_calibration_error(array, truth, bins),
        "ece_smooth": smooth_ece(array, truth),
        "reliability": reliability(array, truth, bins),
        "aurc": ranking.aurc(confidence, mistakes),
        "excess_aurc": ranking.excess_aurc(confidence, mistakes),
        "augrc": ranking.augrc(confidence, mistakes),
        "majority_error": 1 - float(np.bincount(truth).max()) / len(truth),
        "examples": len(truth),
        "classes": seen.classes,
    }


_WRAP = (
    "Wrap it: from_module(module, kind), from_sklearn(classifier) or ExternalPredictor(function, kind) "
    "of totalcal.scores."
)


def evaluate_files(
    predictions: str | os.PathLike[str],
    ood: Sequence[str | os.PathLike[str]] = (),
    *,
    bins: int = 15,
    uncertainty: str = "entropy",
    label: str = "label",
) -> Verdict:
    """Judge a file of predictions, with files of predictions on OOD inputs: `totalcal score`.

    Args:
        predictions: An .npz with `labels` and exactly one of `probabilities`, `logits`, `concentration` and
            `log_concentration`; or a .csv, .parquet or .npy of probabilities and labels (`read_outputs`).
        ood: The same for OOD inputs, without labels; each set is named by the stem of its file.
        bins: Bins of the ECE, of equal width.
        uncertainty: What tells OOD inputs, by its name in `uncertainties`.
        label: The column of a table that holds the labels.

    Returns:
        The verdict.

    Raises:
        InputError: If a file has no labels where they are needed, or files do not go together.
        UnreadableFileError: If a file is absent or damaged.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/test.npz", probabilities=[[0.9, 0.1], [0.4, 0.6]], labels=[0, 1])
        ...     evaluate_files(f"{folder}/test.npz").error
        0.0
    """
    test = read_outputs(predictions, label, needs_labels=True)
    assert test.labels is not None
    panel = {}
    for path in ood:
        others = read_outputs(path, label)
        if others.kind != test.kind:
            raise InputError(
                f"{path} holds {others.kind}, but {predictions} holds {test.kind}: save both as one kind."
            )
        if (name := Path(path).stem) in panel:
            raise InputError(f"two OOD sets are called {name!r}; give their files different names.")
        panel[name] = others.outputs
    return evaluate_outputs(test.outputs, test.labels, test.kind, panel, bins=bins, uncertainty=uncertainty)
