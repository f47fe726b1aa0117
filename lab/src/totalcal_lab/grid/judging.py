"""What is kept of a run's predictor: the verdict as a flat record, and `artefacts.npz`.

The latter holds curves, histograms and examples, ready to be drawn; docs/grid.md has the keys.
"""

import hashlib
import platform
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import totalcal
from totalcal.baselines import TemperatureScaled
from totalcal.files import whole_file
from totalcal.models import GivenContext, TuringProcess
from totalcal.parts import MEANS, ExternalMemory, sampling
from totalcal.scores import (
    Observed,
    Verdict,
    evaluate,
    operating_points,
)
from totalcal.types import Predictor, Sampling
from totalcal_lab.backbones.baselines import BASELINES
from totalcal_lab.data.arrays import ArrayData
from totalcal_lab.data.domain import TaskData
from totalcal_lab.data.tasks import task
from totalcal_lab.grid.configuration import RunConfig, derived
from totalcal_lab.grid.joint import dyadic_sets, joint_nll, joint_nll_of_draws
from totalcal_lab.grid.presets import base_preset

_SET_SIZE, _JOINT_DRAWS, _SETS_SEED = 10, 100, 0


def judge(config: RunConfig, predictor: Predictor, data: TaskData) -> Verdict:
    """All scores from one pass over each set."""
    options = config.sections["judging"]
    size = options["batch_size"]
    return evaluate(
        predictor,
        data.test.batches(size),
        {name: (batch.inputs for batch in rows.batches(size)) for name, rows in data.ood.items()},
        bins=options["bins"],
        draws=options["draws"],
        seed=config.seed,
        uncertainty=options["uncertainty"],
        batch_size=size,
    )


def record_of(config: RunConfig, verdict: Verdict, predictor: Predictor, data: TaskData) -> dict[str, Any]:
    """Everything that was measured, and what is needed to trust it."""
    scores = {key: value for key, value in verdict.to_dict().items() if value is not None}
    return {
        **config.identity,
        "reduced": base_preset(config.task, config.preset).reduced,
        **scores,
        **_by_uncertainty(verdict),
        **_joint(config, predictor, data),
        **_on_held_out(config, predictor, data),
        **_of_the_predictor(predictor),
        "prediction": prediction_in_words(verdict.sampling),
        "config": config.name,
        **{f"sha256/{name}": _digest(rows) for name, rows in _sets(data).items()},
        "totalcal": totalcal.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def prediction_in_words(sampling: Sampling) -> str:
    """What was judged, as records say it.

    >>> from totalcal.types import DETERMINISTIC
    >>> prediction_in_words(Sampling(10, seed=0)), prediction_in_words(DETERMINISTIC)
    ('ten draws', 'no draws')
    """
    draws = sampling.draws
    if draws == "moments":
        return draws
    return {0: "no draws", 1: "one draw", 10: "ten draws"}.get(draws, f"{draws} draws")


def _by_uncertainty(verdict: Verdict) -> dict[str, float]:
    """How well each uncertainty tells each set of the panel, beside the one the verdict is by."""
    return {
        f"auroc_by_{uncertainty}/{name}": ranking.auroc
        for name, member in verdict.panel.items()
        for uncertainty, ranking in member.rankings.items()
    }


def _joint(config: RunConfig, predictor: Predictor, data: TaskData) -> dict[str, float]:
    """The NLL of small sets of near test inputs; the sets are the same for all models.

    Nearness of words says little: no joint there.
    """
    if task(config.task).kind == "tokens":
        return {}
    options = config.sections["judging"]
    rows = dyadic_sets(data.test.inputs, options["joint_sets"], _SET_SIZE, seed=_SETS_SEED)
    inputs, labels = data.test.whole()
    seed = derived("joint", config.task, config.model, config.seed)
    if isinstance(predictor, TuringProcess):
        log_joint = partial(predictor.log_joint, draws=_JOINT_DRAWS, seed=seed)
    elif isinstance(predictor, GivenContext):
        log_joint = partial(
            predictor.process.log_joint, draws=_JOINT_DRAWS, context=predictor.context, seed=seed
        )
    elif config.model in BASELINES:
        draws = predictor.predict(inputs, draws=options["draws"], seed=seed).belief.mean
        return {"joint_nll": joint_nll_of_draws(draws.double().cpu().numpy(), labels.numpy(), rows)}
    else:
        return {}
    return {"joint_nll": joint_nll(log_joint, inputs, labels, rows)}


def _on_held_out(config: RunConfig, predictor: Predictor, data: TaskData) -> dict[str, float]:
    """Scores to choose settings by; never those of the test set."""
    if len(config.needs) > 1 or not len(data.held_out):
        return {}  # nets of several seeds have learned from each other's held-out rows
    options = config.sections["judging"]
    verdict = evaluate(predictor, data.held_out.batches(256), draws=options["draws"], seed=config.seed)
    return {"held_out_error": verdict.error, "held_out_nll": verdict.nll, "held_out_ece": float(verdict.ece)}


def _of_the_predictor(predictor: Predictor) -> dict[str, float]:
    if isinstance(predictor, TemperatureScaled):
        return {"temperature": predictor.temperature}
    if isinstance(predictor, GivenContext):
        return {"context_rows": len(predictor.context.labels)}
    return {}


def _sets(data: TaskData) -> dict[str, ArrayData]:
    return {"train": data.train, "held_out": data.held_out, "test": data.test, **data.ood}


def _digest(rows: ArrayData) -> str:
    digest = hashlib.sha256(rows.inputs.contiguous().numpy().tobytes())
    digest.update(rows.labels.numpy().tobytes())
    return digest.hexdigest()[:16]


NamedArrays = dict[str, NDArray[Any]]

_ENTROPY_BINS = 40
_POINTS = 200
_UNSURE = 12
_MEMORY_ROWS = 5_000
_MEMORY_EXAMPLES = 3
_PICTURE_BYTES = 150_000


def write_artefacts(
    path: Path, config: RunConfig, verdict: Verdict, predictor: Predictor, data: TaskData
) -> None:
    """All of the file or none; the same run gives the same bytes."""
    arrays = {
        "class_names": np.array(_class_names(config)),
        **_reliability(verdict),
        **_entropies(verdict),
        **_roc_curves(verdict),
        **_decomposition(verdict),
        **_risk_coverage(verdict),
        **_unsure(verdict, data.test),
        **memory_arrays(predictor, data.train),
    }
    compacted: dict[str, Any] = {name: compact(array) for name, array in arrays.items()}
    with whole_file(path) as file:
        np.savez_compressed(file, **compacted)


def compact(array: NDArray[Any]) -> NDArray[Any]:
    """Four bytes per number are enough to draw; tokens fit in two."""
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.int64 and array.size and np.abs(array).max() < 2**15:
        return array.astype(np.int16)
    return array


def _class_names(config: RunConfig) -> tuple[str, ...]:
    return task(config.task).classes(config.sections["data"].get("left_out"))


def _reliability(verdict: Verdict) -> NamedArrays:
    curve = verdict.reliability
    return {
        f"reliability/{name}": getattr(curve, name) for name in ("edges", "counts", "confidence", "accuracy")
    }


def _entropies(verdict: Verdict) -> NamedArrays:
    most = float(np.log(verdict.classes))
    edges = np.linspace(0, most, _ENTROPY_BINS + 1)

    def counts(seen: Observed) -> NDArray[Any]:
        return np.histogram(seen.entropy.clip(0, most), edges)[0]

    ood = {f"entropy/ood/{name}": counts(seen) for name, seen in verdict.observed.ood.items()}
    return {"entropy/edges": edges, "entropy/in_distribution": counts(verdict.observed.test), **ood}


def _roc_curves(verdict: Verdict) -> NamedArrays:
    from sklearn.metrics import roc_curve

    in_distribution, arrays = verdict.observed.test.entropy, {}
    for name, seen in verdict.observed.ood.items():
        ood = seen.entropy
        positive = np.repeat([0, 1], [len(in_distribution), len(ood)])
        false_positive, true_positive, _ = roc_curve(positive, np.concatenate([in_distribution, ood]))
        arrays[f"roc/{name}/false_positive"] = _thinned(false_positive)
        arrays[f"roc/{name}/true_positive"] = _thinned(true_positive)
    return arrays


def _decomposition(verdict: Verdict) -> NamedArrays:
    """The mean terms of inputs that were classified correctly, of those misclassified, and of OOD inputs."""
    wrong = _mistakes(verdict)
    groups = {"right": verdict.observed.test.terms[~wrong], "wrong": verdict.observed.test.terms[wrong]}
    groups |= {f"ood/{name}": seen.terms for name, seen in verdict.observed.ood.items()}
    return {f"decomposition/{name}": terms.mean(0) for name, terms in groups.items() if len(terms)}


def _risk_coverage(verdict: Verdict) -> NamedArrays:
    confidence = verdict.observed.test.probabilities.max(1)
    points = operating_points(confidence, _mistakes(verdict))
    return {
        "risk_coverage/coverage": _thinned(np.array([point.coverage for point in points])),
        "risk_coverage/risk": _thinned(np.array([point.risk for point in points])),
    }


def _unsure(verdict: Verdict, test: ArrayData) -> NamedArrays:
    seen = verdict.observed.test
    rows = np.argsort(-seen.entropy, kind="stable")[:_UNSURE]
    return {
        "unsure/inputs": test.inputs[rows].numpy(),
        "unsure/labels": test.labels[rows].numpy(),
        "unsure/predictions": seen.probabilities[rows].argmax(1),
        "unsure/entropy": seen.entropy[rows],
        "unsure/terms": seen.terms[rows],
    }


def _mistakes(verdict: Verdict) -> NDArray[np.bool_]:
    seen = verdict.observed.test
    return np.asarray(seen.probabilities.argmax(1) != seen.labels)


def _thinned(values: NDArray[Any]) -> NDArray[Any]:
    """At most 200 of the points of a curve, its ends among them."""
    places = np.linspace(0, len(values) - 1, min(len(values), _POINTS)).round().astype(int)
    return np.asarray(values[places])


def memory_arrays(predictor: Predictor, train: ArrayData) -> dict[str, NDArray[Any]]:
    """The arrays of a model with memory, for the first training rows; nothing for the others."""
    if not isinstance(predictor, TuringProcess) or not isinstance(predictor.latent, ExternalMemory):
        return {}
    rows = train.subset(torch.arange(min(_MEMORY_ROWS, len(train))))
    attention = _attention(predictor, predictor.latent, rows)
    arrays = {
        "memory/cells": predictor.latent.cells.numpy(),
        "memory/attention": _by_class(attention, rows.labels, predictor.num_classes).numpy(),
    }
    return arrays | _representatives(attention, rows)


@torch.no_grad()
def _attention(process: TuringProcess, memory: ExternalMemory, rows: ArrayData) -> Tensor:
    """φ of each row over the cells, by mean weights and mean cells: rows × cells."""
    blocks = []
    with sampling(MEANS):
        for batch in rows.batches(256):
            embedding = process.backbone(batch.inputs)
            blocks.append(memory.attention_weights(embedding[None], memory.cells[None])[0])
    return torch.cat(blocks)


def _by_class(attention: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """The mean attention of each class, classes × cells; NaN for a class without rows."""
    shares = [attention[labels == label].mean(0) for label in range(num_classes)]
    return torch.stack(shares)


def _representatives(attention: Tensor, rows: ArrayData) -> dict[str, NDArray[Any]]:
    """For each cell the rows that attend to it most, as many as the file has room for."""
    one = rows.inputs[0].numel() * (rows.inputs.element_size() if rows.inputs.dtype == torch.uint8 else 4)
    fitting = min(_MEMORY_EXAMPLES, _PICTURE_BYTES // (one * attention.shape[1]), len(attention))
    if fitting == 0:
        return {}
    places = attention.topk(fitting, dim=0).indices.T  # [cells, examples]
    return {
        "memory/inputs": np.asarray(rows.inputs[places].numpy()),
        "memory/labels": rows.labels[places].numpy(),
    }
