"""Run folders made by hand: what the grid leaves behind, with numbers that no training made."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from totalcal_lab.pages import write_report
from totalcal_lab.records import append
from totalcal_lab.records.folders import RunFolder

if TYPE_CHECKING:
    from playwright.sync_api import Page

CLASSES = ("zero", "one", "two", "three")


def kept(seed: int, memory: bool = False, ood: tuple[str, ...] = ("letters", "noise")) -> dict[str, Any]:
    """Artefacts with every part, of a made-up model."""
    rng = np.random.default_rng(seed)
    counts = np.array([0, 0, 1, 2, 4, 8, 12, 20, 60, 250])
    confidence = (np.arange(10) + 0.5) / 10
    edges = np.linspace(0, np.log(10), 31)
    arrays = {
        "class_names": np.array(CLASSES),
        "reliability/edges": np.linspace(0, 1, 11),
        "reliability/confidence": confidence,
        "reliability/accuracy": np.clip(confidence - 0.1 * rng.random(10), 0, 1),
        "reliability/counts": counts,
        "entropy/edges": edges,
        "entropy/in_distribution": np.histogram(rng.gamma(1, 0.3, 500), edges)[0],
        "risk_coverage/coverage": np.linspace(0.01, 1, 50),
        "risk_coverage/risk": np.linspace(0, 0.1, 50) ** 2 * 10,
        "decomposition/right": np.array([0.02, 0.01, 0.05]),
        "decomposition/wrong": np.array([0.2, 0.1, 0.3]),
        "unsure/inputs": rng.integers(0, 256, (12, 8, 8, 1), dtype=np.uint8),
        "unsure/labels": rng.integers(0, 4, 12),
        "unsure/predictions": rng.integers(0, 4, 12),
        "unsure/terms": rng.dirichlet(np.ones(3), 12) * 0.7,
    }
    for name in ood:
        arrays[f"entropy/ood/{name}"] = np.histogram(rng.gamma(5, 0.3, 500), edges)[0]
        arrays[f"roc/{name}/false_positive"] = np.linspace(0, 1, 50)
        arrays[f"roc/{name}/true_positive"] = np.linspace(0, 1, 50) ** 0.2
        arrays[f"decomposition/ood/{name}"] = np.array([0.3, 0.2, 0.2])
    if memory:
        arrays |= {
            "memory/cells": rng.uniform(-1, 1, (20, 4)),
            "memory/attention": rng.dirichlet(np.ones(20), 4),
            "memory/inputs": rng.integers(0, 256, (20, 3, 8, 8, 1), dtype=np.uint8),
            "memory/labels": rng.integers(0, 4, (20, 3)),
        }
    return arrays


def record(model: str, seed: int, **changes: Any) -> dict[str, Any]:
    """A record whose scores differ a little by seed."""
    return {
        "task": "digits",
        "preset": "laptop",
        "model": model,
        "seed": seed,
        "epochs": 2,
        "error": 0.05 + 0.001 * seed,
        "nll": 0.2 + 0.01 * seed,
        "brier": 0.1,
        "ece": 0.02,
        "ece_100": 0.03,
        "aurc": 0.01,
        "auroc": 0.9,
        "auroc_mean": 0.85,
        "auroc_worst": 0.8,
        "auroc/letters": 0.9,
        "auroc/noise": 0.8,
        "majority_error": 0.9,
        "prediction": "ten draws",
        "examples": 360,
        "reduced": True,
        "torch": "2.6.0",
        **changes,
    }


def remembered(error: float) -> Iterator[dict[str, Any]]:
    """Lines of the domain benchmark: familiarity tells both OOD sets, the entropy one."""
    fades = ("0", "0.001", "0.003", "0.01")
    fit = {f"{score}/{fade}": 0.1 for score in ("nll", "ece") for fade in fades}
    yield {"ood": "none", "false_alarms/0.05": 0.048, "false_alarms/0.01": 0.009, **fit}
    for name, nearness, entropy in (("letters", "near", 0.7), ("noise", "far", 0.95)):
        areas = {"auroc_by_unfamiliarity": 0.99, "auroc_by_entropy": entropy, "auroc_by_knn": 0.9}
        faded = {f"auroc_faded/{fade}": 0.9 for fade in fades}
        yield {"ood": name, "nearness": nearness, **areas, **faded}
    for severity in range(1, 6):
        told = {"familiarity": 0.5 / severity, "alarms/0.05": 0.1 * severity, "wrong_by_entropy": 0.8}
        both = {"wrong_by_unfamiliarity": 0.7, "wrong_by_both": 0.75, "error": error * severity}
        yield {"ood": "corruption/fog", "severity": severity, **told, **both, **fit}


@pytest.fixture
def artefacts() -> Callable[..., dict[str, Any]]:
    """Artefacts with every part, by seed."""
    return kept


def make_run_in(
    root: Path, model: str, seed: int, *, artefacts: dict[str, Any] | None = None, **changes: Any
) -> RunFolder:
    """A finished run; what is not given is left out."""
    line = record(model, seed, **changes)
    config = {key: line[key] for key in ("task", "preset", "model", "seed", "epochs")}
    folder = RunFolder(root / hashlib.sha256(repr((config, line.get("settings"))).encode()).hexdigest()[:16])
    folder.plan(config | {"learning_rate": 1e-3, "settings": line.get("settings", {})})
    folder.start()
    folder.timing.note("epoch", epoch=0, seconds={"softmax": 1.0}.get(model, 1.25))
    append(folder.records_file, line)
    if artefacts is not None:
        np.savez_compressed(folder.artefacts_file, **artefacts)
    folder.finish()
    return folder


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunFolder]:
    """A finished run in `tmp_path/runs`."""
    return partial(make_run_in, tmp_path / "runs")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, two seeds, every kind of record; not to be changed."""
    root = tmp_path_factory.mktemp("grid") / "runs"
    for seed, (model, error) in product((0, 1), (("softmax", 0.06), ("etp", 0.04))):
        kept_by_it = kept(seed, memory=model == "etp")
        folder = make_run_in(root, model, seed, artefacts=kept_by_it, error=error, nll=4 * error)
        for kind, severity in product(("fog", "snow"), range(1, 6)):
            scores = {"error": error * severity, "ece": 0.02 * severity, "ece_100": 0.03 * severity}
            place = {"corruption": kind, "severity": severity, "examples": 360, "config": folder.name}
            append(folder.corruptions_file, {**record(model, seed), **place, **scores})
        for line in remembered(error):
            append(folder.domain_file, {**record(model, seed), "config": folder.name, **line})
    return root


@pytest.fixture(scope="session")
def report(runs: Path) -> Path:
    """The page about `runs`."""
    return write_report(runs, runs.parent / "report.html")


@pytest.fixture
def page(open_page: Callable[[Path], "Page"], report: Path) -> "Page":
    """The report about `runs`."""
    return open_page(report)
