import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from totalcal import ETPClassifier, Pipeline
from totalcal.baselines import temperature_scaled
from totalcal.errors import InputError, LabelError, ShapeError, UnknownNameError
from totalcal.scores import ExternalPredictor, as_predictive, evaluate, from_arrays, from_module, from_sklearn
from totalcal.scores.external import eval_mode

LOGITS = np.array([[0.3, -1.0, 2.0], [5.0, 0.0, -5.0]])
KINDS = {
    "logits": (LOGITS, softmax(LOGITS, axis=1)),
    "probabilities": (softmax(LOGITS, axis=1), softmax(LOGITS, axis=1)),
    "log_concentration": (LOGITS, softmax(LOGITS, axis=1)),
    "concentration": (np.exp(LOGITS), softmax(LOGITS, axis=1)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_own_mean(kind):
    outputs, expected = KINDS[kind]
    assert_allclose(as_predictive(outputs, kind).probabilities, expected, rtol=1e-12)


def test_a_dirichlet_is_judged_by_its_mean_not_by_its_softmax():
    alpha = np.array([[1.0, 9.0]])
    assert_allclose(as_predictive(alpha, "concentration").probabilities, [[0.1, 0.9]])
    assert_allclose(as_predictive(alpha, "concentration").decompose().irreducible, [[0.09 / 11] * 2])


def test_point_masses_have_no_irreducible_part_and_one_draw_no_reducible_part():
    terms = as_predictive(LOGITS, "logits").decompose()
    assert_allclose(terms.irreducible, 0)
    assert_allclose(terms.reducible, 0)


def test_draws_are_averaged_as_probabilities():
    draws = np.stack([LOGITS, -LOGITS])
    expected = (softmax(LOGITS, axis=1) + softmax(-LOGITS, axis=1)) / 2
    predictive = as_predictive(draws, "logits")
    assert predictive.draws == 2
    assert_allclose(predictive.probabilities, expected, rtol=1e-12)


def test_certainty_survives():
    predictive = as_predictive([[1.0, 0.0]], "probabilities")
    assert_allclose(predictive.probabilities, [[1.0, 0.0]])
    assert predictive.entropy.item() == 0


def test_arrays_take_their_draws_on_the_second_axis():
    rows = torch.as_tensor(np.stack([LOGITS, -LOGITS], axis=1))  # [rows, draws, classes]
    assert from_arrays("logits").predict(rows).draws == 2


def test_a_module_is_judged_in_eval_mode_and_gets_its_modes_back():
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.9))
    module[1].eval()
    predictor = from_module(module, "logits")
    inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    first, second = (predictor.predict(inputs).probabilities for _ in range(2))
    assert torch.equal(first, second)
    assert [part.training for part in module] == [True, False, True]


def test_a_scikit_learn_classifier_is_judged_by_its_own_probabilities():
    features, labels = load_iris(return_X_y=True)
    forest = RandomForestClassifier(n_estimators=5, random_state=0).fit(features, labels)
    predictive = from_sklearn(forest).predict(torch.as_tensor(features))
    assert_allclose(predictive.probabilities, forest.predict_proba(features), atol=1e-12)


def test_a_classifier_is_judged_by_its_own_labels_whatever_they_are_called():
    features, labels = load_iris(return_X_y=True)
    words = np.array(["setosa", "versicolor", "virginica"])[labels]
    forest = RandomForestClassifier(n_estimators=5, max_depth=2, random_state=0)
    expected = evaluate(from_sklearn(forest.fit(features, labels)), (torch.tensor(features), labels))
    for names in (words, labels + 1):
        found = evaluate(from_sklearn(forest.fit(features, names)), (torch.tensor(features), names))
        assert (found.error, found.nll) == (expected.error, expected.nll)
    batches = DataLoader(TensorDataset(torch.tensor(features), torch.tensor(labels + 1)), batch_size=40)
    assert evaluate(from_sklearn(forest), batches).error == expected.error
    with pytest.raises(LabelError, match="'rose'"):
        evaluate(from_sklearn(forest.fit(features, words)), (torch.tensor(features), ["rose"] * 150))


def test_the_temperature_of_a_classifier_is_fitted_on_its_own_labels():
    features, labels = load_iris(return_X_y=True)
    words = np.array(["setosa", "versicolor", "virginica"])[labels]
    forest = RandomForestClassifier(n_estimators=5, max_depth=2, random_state=0)
    rows = torch.tensor(features)
    expected = temperature_scaled(from_sklearn(forest.fit(features, labels)), (rows, labels))
    found = temperature_scaled(from_sklearn(forest.fit(features, words)), (rows, words))
    assert found.temperature == expected.temperature
    assert evaluate(found, (rows, words)).nll == evaluate(expected, (rows, labels)).nll


@pytest.mark.parametrize("hold", [lambda it: it, make_pipeline, lambda it: Pipeline([("it", it)])])
def test_an_estimator_as_it_is_is_told_to_be_wrapped(hold):
    features, labels = load_iris(return_X_y=True)
    model = hold(ETPClassifier(max_epochs=1, random_state=0)).fit(features, labels)
    with pytest.raises(InputError, match=r"from_sklearn\(classifier\)"):
        evaluate(model, (torch.tensor(features), labels))


def test_a_data_frame_reaches_a_classifier_as_it_is():
    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0] * 20, "colour": ["red", "red", "blue", "blue"] * 20})
    labels = np.array(["no", "no", "yes", "yes"] * 20)
    columns = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    pipeline = make_pipeline(columns, ETPClassifier(max_epochs=3, draws=3, random_state=0)).fit(frame, labels)
    verdict = evaluate(
        from_sklearn(pipeline), (frame, labels), {"huge": frame.assign(size=1e3)}, batch_size=32
    )
    assert (verdict.examples, verdict.draws, list(verdict.panel)) == (80, 3, ["huge"])
    assert_allclose(verdict.observed.test.probabilities, pipeline.predict_proba(frame), rtol=1e-12)
    with pytest.raises(ShapeError, match="80 inputs, but 3 labels"):
        evaluate(from_sklearn(pipeline), (frame, labels[:3]))


def test_a_classifier_that_is_not_fitted_is_refused():
    with pytest.raises(InputError, match="fit it first"):
        from_sklearn(RandomForestClassifier())


@pytest.mark.parametrize(
    ("outputs", "kind", "error", "words"),
    [
        (LOGITS, "probabilities", InputError, "softmax"),
        (LOGITS, "concentration", InputError, "above 0"),
        ([[np.inf, 0.0]], "logits", InputError, "finite"),
        ([[np.nan, 0.0]], "log_concentration", InputError, "finite"),
        ([0.5, 0.5], "probabilities", ShapeError, "examples × classes"),
        ([[1.0]], "probabilities", ShapeError, "two classes"),
        (np.zeros((0, 3)), "logits", InputError, "empty"),
        (LOGITS, "logit", UnknownNameError, "logits"),
    ],
)
def test_outputs_that_are_not_what_is_stated_are_refused(outputs, kind, error, words):
    with pytest.raises(error, match=words):
        as_predictive(outputs, kind)


def test_the_kind_is_checked_when_it_is_stated():
    with pytest.raises(UnknownNameError, match="Did you mean 'logits'"):
        ExternalPredictor(lambda inputs: inputs, "logit")


def test_threads_that_come_and_go_leave_the_mode_as_it_was():
    """One that leaves while another is inside would else switch training on in the middle of its pass."""
    net, inside, leave = (
        nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)),
        threading.Event(),
        threading.Event(),
    )

    def first():
        with eval_mode(net):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    with eval_mode(net):
        leave.set()
        thread.join()
        assert not any(part.training for part in net.modules())
    assert all(part.training for part in net.modules())


def test_a_net_is_not_left_in_eval_mode_by_threads_that_overlap():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    predictor, rows = from_module(net, "logits"), torch.randn(4, 2)
    before = net[1].running_mean.clone()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: predictor.predict(rows), range(200)))
    assert torch.equal(net[1].running_mean, before)
    assert net.training
