"""A grid as people type it: `totalcal-lab run`, `status` and `demo`; what reads runs is cheap to start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from totalcal.cli import run_application as run
from totalcal_lab.cli.app import app
from totalcal_lab.records.folders import RunFolder
from totalcal_lab.records.store import append

SCORES = {
    "error": 0.1,
    "ece": 0.02,
    "ece_100": 0.03,
    "nll": 0.4,
    "auroc": 0.9,
    "majority_error": 0.9,
    "prediction": "ten draws",
}


@pytest.fixture
def runs(tmp_path):
    for model, error in (("softmax", 0.1), ("etp", 0.05)):
        for seed in range(2):
            folder = RunFolder(tmp_path / f"{model}{seed}")
            config = {"task": "digits", "preset": "laptop", "model": model, "seed": seed, "epochs": 3}
            folder.plan(config)
            folder.start()
            folder.timing.note("trained", seconds=[1.0, 2.0 if model == "etp" else 1.0, 3.0])
            append(folder.records_file, {**config, **SCORES, "error": error, "auroc/letters": 0.9})
            folder.finish()
    return tmp_path


@pytest.mark.parametrize("command", [["--help"], ["run", "--help"], ["status", "RUNS"], ["table", "RUNS"]])
def test_torch_is_not_imported_to_look_at_runs(runs, command):
    words = [str(runs) if word == "RUNS" else word for word in command]
    program = (
        "import sys; from totalcal_lab.cli.app import app; from totalcal.cli import run_application as run;"
        f"code = run(app, {words!r}); assert 'torch' not in sys.modules; sys.exit(code)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


def test_json_holds_no_path_and_no_time(runs, capsys):
    assert run(app, ["table", str(runs), "--json"]) == 0
    said = capsys.readouterr().out
    assert str(runs) not in said
    rows = json.loads(said)["rows"]
    assert set(rows[0]) == {
        *("task", "preset", "settings", "score", "model", "mean", "std", "seeds", "bold"),
        *("paper_mean", "paper_std"),
    }


@pytest.mark.parametrize("format", ["text", "markdown", "latex", "csv"])
def test_every_format_names_every_model(runs, capsys, format):
    assert run(app, ["table", str(runs), "--format", format]) == 0
    said = capsys.readouterr().out
    assert "softmax" in said
    assert "etp" in said


def test_cost_is_relative_to_the_plain_net(runs, capsys):
    assert run(app, ["table", str(runs), "--cost", "--json"]) == 0
    rows = {row["model"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["etp"]["ratio"] == pytest.approx(2.0)


def test_status_says_what_is_done_and_leaves_an_exit_code(runs, capsys):
    assert run(app, ["status", str(runs)]) == 0
    assert "4 of 4 done" in capsys.readouterr().out
    broken = RunFolder(runs / "broken")
    broken.plan({"task": "digits", "preset": "laptop", "model": "bnn", "seed": 0, "epochs": 3})
    broken.fail(ValueError("no"))
    assert run(app, ["status", str(runs)]) == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["run", "digist"], "digits"),
        (["run", "digits", "--models", "ept"], "etp"),
        (["run", "digits", "--set", "wieght_kl_scale=0"], "weight_kl_scale"),
        (["run", "digits", "--set", "weight_kl_scale"], "name=value"),
        (["run", "digits", "--set", f"train_limit={'[' * 3000}"], "train_limit is a number of rows"),
        (["table", "nowhere"], "totalcal-lab run"),
    ],
)
def test_mistakes_end_in_advice(words, hint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(app, words) == 2
    assert hint in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_grid_is_run_and_its_table_names_the_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = str(tmp_path / "runs")
    words = ["run", "digits", "--models", "softmax,etp", "--seeds", "1", "--epochs", "2", "--out", runs]
    assert run(app, [*words, "--engine", "sequential"]) == 0
    assert run(app, ["table", runs]) == 0
    said = capsys.readouterr().out
    assert "softmax" in said
    assert "etp" in said
