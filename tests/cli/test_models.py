"""`totalcal inspect`, `predict`, `export` and `score` as people type them."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from typer.testing import CliRunner

from totalcal import Monitor, PredictionSets, Preprocessing, save, softmax
from totalcal.cli import app
from totalcal.decisions.monitor import watched_scores
from totalcal.errors import UnreadableFileError
from totalcal.files.predicting.exported import open_exported
from totalcal.files.saved import load
from totalcal.nets import mlp
from totalcal.types import PointMass, Predictive


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_inspect_shows_model_gate_and_price(model_file):
    shown = run("inspect", model_file).output
    for word in (
        "etp(num_classes=3, num_cells=20",
        "mlp(",
        "20 cells",
        "setosa, versicolor, virginica",
        "accepts",
        "error 0.05",
    ):
        assert word in shown
    assert not re.search(r"\.\d{5}", shown)  # limits and rates with as many digits as one reads


def test_inspect_shows_what_a_service_needs(tmp_path):
    prediction = Predictive(PointMass(torch.randn(1, 200, 3, generator=torch.Generator().manual_seed(0))))
    labels = np.arange(200) % 3
    save(
        softmax(mlp(4, 3, hidden=(2,)), num_classes=3),
        tmp_path / "it.totalcal",
        sets=PredictionSets.fitted(prediction, labels, coverage=0.9),
        monitor=Monitor.start(watched_scores(prediction)),
    )
    shown = run("inspect", tmp_path / "it.totalcal").output
    for word in ("coverage 0.9, from 200 held-out rows", "of entropy; 0 rows"):
        assert word in shown


def test_names_in_a_file_of_somebody_else_can_neither_style_nor_clear_the_terminal(tmp_path):
    model = softmax(mlp(4, 2, hidden=(2,)), num_classes=2)
    save(model, tmp_path / "other.totalcal", classes=("[bold]eel[/bold]", "\x1b[2J\x1b[31mred"))
    shown = run("inspect", tmp_path / "other.totalcal").output
    assert r"[bold]eel[/bold], \x1b[2J\x1b[31mred" in shown


def test_inspect_never_imports_torch(model_file):
    program = (
        "import sys\nfrom pathlib import Path\nfrom totalcal.files.container import summary\n"
        f"summary(Path({str(model_file)!r}))\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_predict_writes_a_line_for_each_row(model_file, table, tmp_path, lines):
    result = run("predict", model_file, table, "-o", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    assert "150 rows, 150 of them now" in result.output
    assert len(lines(tmp_path / "out.csv")) == 150


def test_a_refused_row_shows_in_the_exit_status(model_file, table, tmp_path):
    table.write_text(table.read_text() + "1,2,three,4\n")
    result = run("predict", model_file, table, "-o", tmp_path / "out.csv")
    assert result.exit_code == 3, result.output
    assert "1 could not be used" in result.output
    assert (tmp_path / "out.csv").exists()


def test_moments_may_take_the_place_of_draws(estimator, iris, tmp_path, lines):
    estimator.save(tmp_path / "iris.totalcal")
    iris[0].to_csv(tmp_path / "iris.csv", index=False)
    result = run(
        "predict",
        tmp_path / "iris.totalcal",
        tmp_path / "iris.csv",
        "-o",
        tmp_path / "out.csv",
        "--draws",
        "moments",
    )
    assert result.exit_code == 0, result.output
    saved = load(tmp_path / "iris.totalcal")
    expected = saved.predict(iris[0].to_numpy(), draws="moments").entropy
    assert_allclose([float(line["entropy"]) for line in lines(tmp_path / "out.csv")], expected, rtol=1e-5)


def test_draws_that_are_no_number_are_refused(model_file, table, tmp_path):
    result = run("predict", model_file, table, "-o", tmp_path / "out.csv", "--draws", "many")
    assert result.exit_code == 2
    assert "moments" in result.output


def test_export_writes_a_program_beside_the_model_and_says_how_near_it_is(draw, tmp_path):
    rows = draw.normal(size=(8, 4))
    preprocessing = Preprocessing.fitted(rows)
    save(softmax(mlp(4, 3), 3), tmp_path / "m.totalcal", classes="abc", preprocessing=preprocessing)
    done = CliRunner().invoke(app, ["export", str(tmp_path / "m.totalcal"), "--to", "pt2", "--draws", "0"])
    assert done.exit_code == 0, done.output
    assert "probabilities, entropy" in done.output.replace("\n", " ")
    assert "from the model on 8 rows" in done.output.replace("\n", " ")
    exported = open_exported(tmp_path / "m.pt2")
    assert exported.classes == tuple("abc")
    assert exported.predict(rows)["probabilities"].shape == (8, 3)


@pytest.fixture
def files(tmp_path):
    """What a scikit-learn user would save."""
    features, labels = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(features, labels)
    elsewhere = features.mean(axis=0) + np.random.default_rng(0).normal(size=(40, 4))
    test, other = tmp_path / "predictions.npz", tmp_path / "other.npz"
    np.savez(test, probabilities=model.predict_proba(features), labels=labels)
    np.savez(other, probabilities=model.predict_proba(elsewhere))
    return str(test), str(other), log_loss(labels, model.predict_proba(features))


def test_arrays_saved_from_scikit_learn_are_judged(files):
    test, other, nll = files
    done = run("score", test, "--ood", other, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert_allclose(found["nll"], nll, rtol=1e-9)
    assert {"error", "nll", "brier", "ece", "auroc"} <= set(found)
    assert 0 <= found["auroc"] == found["auroc/other"] <= 1


def test_without_json_it_prints_a_table(files):
    done = run("score", files[0], "--ood", files[1])
    assert done.exit_code == 0
    assert "out-of-distribution (OOD) is the positive class" in done.output


def test_a_bad_file_is_an_error_of_ours(tmp_path):
    from totalcal.errors import InputError

    done = run("score", str(tmp_path / "absent.npz"))
    assert isinstance(done.exception, InputError)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_token_is_not_waited_for(model_file, tmp_path):
    os.mkfifo(tmp_path / "token")
    done = CliRunner().invoke(app, ["serve", str(model_file), "--token-file", str(tmp_path / "token")])
    assert isinstance(done.exception, UnreadableFileError)
