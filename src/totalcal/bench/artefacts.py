"""`artefacts.npz`: curves, histograms and examples of a run, ready to be drawn; docs/grid.md has the keys."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from totalcal.bench.cell import Cell
from totalcal.bench.memory_view import memory_arrays
from totalcal.data.batches import ArrayData
from totalcal.data.domain import TaskData
from totalcal.data.tasks import task
from totalcal.scores.selective import operating_points
from totalcal.scores.verdict import Observed, Verdict
from totalcal.types import Predictor
from totalcal.whole_files import whole_file

Arrays = dict[str, NDArray[Any]]

_ENTROPY_BINS = 40
_POINTS = 200
_UNSURE = 12


def write_artefacts(path: Path, cell: Cell, verdict: Verdict, predictor: Predictor, data: TaskData) -> None:
    """All of the file or none; the same run gives the same bytes."""
    arrays = {
        "class_names": np.array(_class_names(cell)),
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
    """Four bytes a number are enough to draw; tokens fit in two."""
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.int64 and array.size and np.abs(array).max() < 2**15:
        return array.astype(np.int16)
    return array


def _class_names(cell: Cell) -> tuple[str, ...]:
    return task(cell.task).classes(cell.sections["data"].get("left_out"))


def _reliability(verdict: Verdict) -> Arrays:
    curve = verdict.reliability
    return {
        f"reliability/{name}": getattr(curve, name) for name in ("edges", "counts", "confidence", "accuracy")
    }


def _entropies(verdict: Verdict) -> Arrays:
    most = float(np.log(verdict.classes))
    edges = np.linspace(0, most, _ENTROPY_BINS + 1)

    def counts(seen: Observed) -> NDArray[Any]:
        return np.histogram(seen.entropy.clip(0, most), edges)[0]

    ood = {f"entropy/ood/{name}": counts(seen) for name, seen in verdict.observed.ood.items()}
    return {"entropy/edges": edges, "entropy/in_domain": counts(verdict.observed.test), **ood}


def _roc_curves(verdict: Verdict) -> Arrays:
    from sklearn.metrics import roc_curve

    inside, arrays = verdict.observed.test.entropy, {}
    for name, seen in verdict.observed.ood.items():
        outside = seen.entropy
        positive = np.repeat([0, 1], [len(inside), len(outside)])
        false_positive, true_positive, _ = roc_curve(positive, np.concatenate([inside, outside]))
        arrays[f"roc/{name}/false_positive"] = _thinned(false_positive)
        arrays[f"roc/{name}/true_positive"] = _thinned(true_positive)
    return arrays


def _decomposition(verdict: Verdict) -> Arrays:
    """The mean terms of inputs that were answered rightly, wrongly, and of OOD inputs."""
    wrong = _mistakes(verdict)
    groups = {"right": verdict.observed.test.terms[~wrong], "wrong": verdict.observed.test.terms[wrong]}
    groups |= {f"ood/{name}": seen.terms for name, seen in verdict.observed.ood.items()}
    return {f"decomposition/{name}": terms.mean(0) for name, terms in groups.items() if len(terms)}


def _risk_coverage(verdict: Verdict) -> Arrays:
    confidence = verdict.observed.test.probabilities.max(1)
    points = operating_points(confidence, _mistakes(verdict))
    return {
        "risk_coverage/coverage": _thinned(np.array([point.coverage for point in points])),
        "risk_coverage/risk": _thinned(np.array([point.risk for point in points])),
    }


def _unsure(verdict: Verdict, test: ArrayData) -> Arrays:
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
