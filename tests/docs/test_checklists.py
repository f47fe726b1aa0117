"""docs/adding_more.md: a copy of the package, changed as the checklists say, has all that was added."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGES = {
    "registry.py": [('"mc_dropout", "ensemble")', '"mc_dropout", "ensemble", "plain")')],
    "baselines/baseline.py": [
        (
            '{"temperature": TEMPERATURE,',
            '{"plain": Baseline(Nets.OF_ITS_SEED, lambda nets, _: from_module(nets[0], "logits")), '
            '"temperature": TEMPERATURE,',
        )
    ],
    "baselines/ood.py": [
        ('        "knn": knn,', '        "knn": knn, "norm": lambda train: lambda f, l: f.norm(dim=-1),')
    ],
    "data/synthetic.py": [
        (
            '        "inverted":',
            '        "black": SyntheticOOD("far", lambda images, draw: images * 0),\n        "inverted":',
        )
    ],
    "data/catalogue.py": [
        (
            "_SETS = (\n",
            "def read_wine(_: Path, split: str) -> Arrays:\n"
            "    from sklearn.datasets import load_wine\n\n"
            "    bunch = load_wine()\n"
            "    return _part(bunch.data.astype(np.float32), bunch.target, 60, split)\n\n\n"
            'WINE = DataSet("wine", "Wine: 13 measures", 3, read_wine,\n'
            '    {"train": Split(118), "test": Split(60)}, terms="CC BY 4.0",\n'
            '    homepage="scikit-learn", classes=("0", "1", "2"))\n\n'
            "_SETS = (\n    WINE,\n",
        )
    ],
    "data/tasks.py": [
        ('    Task("iris", ', '    Task("wine", "wine", "table", (13,)),\n    Task("iris", '),
    ],
    "bench/presets.py": [
        (
            '        "iris": {"paper": IRIS},\n',
            '        "iris": {"paper": IRIS},\n'
            '        "wine": {"paper": replace(IRIS, task="wine", backbone_options={"num_inputs": 13})},\n',
        )
    ],
    "scores/verdict.py": [
        ("    augrc: float\n", "    augrc: float\n    sureness: float\n"),
        ('"augrc",\n', '"augrc", "sureness",\n'),
    ],
    "scores/evaluate.py": [
        (
            '        "majority_error":',
            '        "sureness": float(confidence.mean()),\n        "majority_error":',
        )
    ],
    "records/labels.py": [
        (
            '    "augrc": Score(',
            '    "sureness": Score("Sureness", False, percent=True),\n    "augrc": Score(',
        )
    ],
    "uncertainties.py": [
        (
            '        "entropy": lambda',
            '        "doubt": lambda p: 1 - p.probabilities.max(1).values,\n        "entropy": lambda',
        )
    ],
}
QUESTIONS = """
from pathlib import Path
import numpy as np
from totalcal_lab.grid.domain import domain_jobs
from totalcal_lab.grid.grid import Grid, grid_jobs, models_named
from totalcal_lab.records.domain import domain_records
from totalcal_lab.records.folders import finished_records
from totalcal.report import describe
from totalcal_lab.data import load

assert load("wine", "test").inputs.shape == (60, 13)
few = Grid("wine", "laptop", {"epochs": 1, "joint_sets": 2})
wines = grid_jobs(few.configurations(["softmax"], 1), Path("wines"))
wines.run("sequential")
assert wines.are_done, [folder.failures for folder in wines.folders()]

assert "plain" in models_named("baselines")
grid = Grid("digits", "laptop", {"epochs": 1, "train_limit": 200, "panel": ["black"], "joint_sets": 2})
jobs = grid_jobs(grid.configurations(["softmax", "plain"], 1), Path("runs"))
jobs.run("sequential")
assert jobs.are_done, [folder.failures for folder in jobs.folders()]
records = {record["model"]: record for record in finished_records(Path("runs"))}
assert records["plain"]["error"] == records["softmax"]["error"]
assert 0 < records["plain"]["sureness"] < 1 and describe("sureness").title == "Sureness"
assert "auroc/black" in records["softmax"] and "auroc_by_doubt/black" in records["softmax"]
domain_jobs(jobs.folders(), corruptions=[]).run("sequential")
assert any("auroc_by_norm" in line for line in domain_records(Path("runs")))
"""


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """The package as the checklists leave it: its source folder."""
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("*.pyc.*"))  # those being written
    for name, changes in CHANGES.items():
        file = source / "totalcal" / name
        text = file.read_text(encoding="utf-8")
        for before, after in changes:
            assert text.count(before) == 1, (
                f"{name} no longer has {before!r}: mend the checklist and this test"
            )
            text = text.replace(before, after)
        file.write_text(text, encoding="utf-8")
    return source


def test_what_the_page_says_is_enough(changed: Path, tmp_path: Path) -> None:
    asked = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", QUESTIONS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(changed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr


def test_the_page_names_every_file_that_changes() -> None:
    page = (ROOT / "docs" / "adding_more.md").read_text(encoding="utf-8")
    assert [name for name in CHANGES if name not in page] == []
