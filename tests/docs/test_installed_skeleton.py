"""One file and one line make a model: all find the skeleton, installed as docs/adding_a_model.md says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REGISTRY_WIDE = """
from pathlib import Path
import numpy as np
import totalcal
from totalcal_lab.grid.grid import Grid, grid_jobs, models_named
from totalcal.estimators import ESTIMATORS
from totalcal.report.labels import in_order
from totalcal_lab.pages import write_report

assert totalcal.ebnn is totalcal.MODELS["ebnn"] and "ebnn" in totalcal.__all__
assert ESTIMATORS["ebnn"] is totalcal.EBNNClassifier
assert in_order(["temperature", "ebnn", "softmax", "etp"]) == ["softmax", "etp", "ebnn", "temperature"]
assert models_named("all")[-1] == "ebnn"

rows = np.random.default_rng(0).normal(size=(60, 3))
classifier = totalcal.EBNNClassifier(max_epochs=1).fit(rows, (rows[:, 0] > 0).astype(int))
assert classifier.predict_proba(rows).shape == (60, 2)

model = totalcal.ebnn(totalcal.backbones.mlp(3, 2), 2)
totalcal.save(model, "model.totalcal")
assert isinstance(totalcal.load("model.totalcal").process, totalcal.TuringProcess)

small = {"epochs": 1, "train_limit": 100, "test_limit": 40, "ood_limit": 40, "joint_sets": 2}
for task in ("digits", "iris"):
    limits = {name: small[name] for name in small if task == "digits" or name in ("epochs", "joint_sets")}
    jobs = grid_jobs(Grid(task, "laptop", limits).configurations(["softmax", "ebnn"], 1), Path("runs"))
    jobs.run("sequential")
    assert jobs.are_done, [folder.failures for folder in jobs.folders()]
page = write_report(Path("runs"), Path("report.html"))
assert "ebnn" in Path(page).read_text()
"""
DONE = "everything that is registry-wide knows it"
CONTRACT = f"""
import os, sys
import pytest

print({DONE!r})
os.chdir({str(ROOT)!r})
sys.exit(pytest.main(["-q", "-p", "no:randomly", "tests/contracts", "-k", "ebnn"]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A copy of the package with the skeleton in it: its source folder."""
    home = tmp_path_factory.mktemp("installed")
    source = home / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("*.pyc.*"))  # those being written
    shutil.copy(ROOT / "docs" / "skeleton_model.py", source / "totalcal" / "models" / "ebnn.py")
    registry = source / "totalcal" / "registry.py"
    text = registry.read_text(encoding="utf-8")
    assert text.count('    "etp",\n') == 1
    registry.write_text(text.replace('    "etp",\n', '    "etp",\n    "ebnn",\n'), encoding="utf-8")
    return source


@pytest.fixture(scope="module")
def asked(installed, tmp_path_factory):
    """Both questions to one process, in an empty folder: what it imports takes longer than its answers."""
    quick = {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }  # no plugins
    return subprocess.run(
        [sys.executable, "-c", REGISTRY_WIDE + CONTRACT],
        env={**os.environ, "PYTHONPATH": str(installed), **quick},
        cwd=tmp_path_factory.mktemp("empty"),
        capture_output=True,
        text=True,
        check=False,
    )


def test_everything_that_is_registry_wide_knows_it(asked):
    assert DONE in asked.stdout, asked.stderr


def test_it_keeps_the_contract(asked):
    assert asked.returncode == 0, asked.stdout[-3000:] + asked.stderr[-3000:]
    assert " passed" in asked.stdout
