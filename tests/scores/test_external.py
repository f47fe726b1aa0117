import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from torch import nn

from totalcal.errors import InputError, ShapeError, UnknownNameError
from totalcal.scores import ExternalPredictor, as_predictive, from_arrays, from_module, from_sklearn

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


def test_a_classifier_with_other_labels_is_refused_before_it_misleads():
    features, labels = load_iris(return_X_y=True)
    with pytest.raises(InputError, match="LabelEncoder"):
        from_sklearn(RandomForestClassifier(n_estimators=2).fit(features, labels + 1))


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
