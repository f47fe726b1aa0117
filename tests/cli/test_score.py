import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from typer.testing import CliRunner

from totalcal.cli import app

run = CliRunner().invoke


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
    done = run(app, ["score", test, "--ood", other, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert_allclose(found["nll"], nll, rtol=1e-9)
    assert {"error", "nll", "brier", "ece", "auroc"} <= set(found)
    assert 0 <= found["auroc"] == found["auroc/other"] <= 1


def test_without_json_it_prints_a_table(files):
    done = run(app, ["score", files[0], "--ood", files[1]])
    assert done.exit_code == 0
    assert "out-of-distribution (OOD) is the positive class" in done.output


def test_a_bad_file_is_an_error_of_ours(tmp_path):
    from totalcal.errors import InputError

    done = run(app, ["score", str(tmp_path / "absent.npz")])
    assert isinstance(done.exception, InputError)
