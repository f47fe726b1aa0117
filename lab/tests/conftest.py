"""Records and run folders without a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from totalcal_lab.records.folders import RunFolder
from totalcal_lab.records.store import append_line


def record(model: str = "etp", seed: int = 0, config: str = "", **more: Any) -> dict[str, Any]:
    settings = more.pop("settings", {})
    run = {"task": "fashion", "preset": "paper", "model": model, "seed": seed, "epochs": 2}
    scores = {"error": 0.08, "nll": 0.25, "ece": 0.01, "ece_100": 0.02, "auroc": 0.9, "auroc/mnist": 0.9}
    rest = {"settings": settings, "majority_error": 0.9, "prediction": "ten draws"}
    rest["config"] = config or f"{model}{seed}{settings}"
    return run | scores | rest | more


@pytest.fixture
def make_record() -> Callable[..., dict[str, Any]]:
    return record


@pytest.fixture
def finish_run() -> Callable[..., None]:
    """A run folder with one record, and with as many lines of corruption and OOD sets as asked for."""

    def finish(runs: Path, corruptions: int = 0, done: bool = True, ood_sets: int = 0, **more: Any) -> None:
        line = record(**more)
        run = RunFolder(runs / line["config"])
        run.plan({key: line[key] for key in ("task", "preset", "model", "seed", "epochs", "settings")})
        run.start()
        run.timing.note("trained", seconds=[10.0, 20.0])
        append_line(run.records_file, line)
        for severity in range(1, corruptions + 1):
            spoiled = {"corruption": "fog", "severity": severity, "examples": 10, "error": 1 / 3}
            append_line(run.corruptions_file, line | spoiled)
        for number in range(ood_sets):
            told = {"ood": f"set {number}", "nearness": "far", "auroc_by_entropy": 0.7, "auroc_by_knn": 0.9}
            append_line(run.domain_file, line | told)
        if done:
            run.finish()

    return finish
