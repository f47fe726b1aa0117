import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import accuracy_score, log_loss

from totalcal import scores


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("sharpness", [0.0, 1.0, 4.0])
def test_error_and_nll_are_scikit_learns(predictions, classes, sharpness):
    probabilities, labels = predictions(classes=classes, sharpness=sharpness)
    exact = probabilities.astype(np.float64)
    exact /= exact.sum(axis=1, keepdims=True)
    assert_allclose(scores.error(exact, labels), 1 - accuracy_score(labels, exact.argmax(axis=1)), rtol=1e-12)
    assert_allclose(scores.nll(exact, labels), log_loss(labels, exact, labels=range(classes)), rtol=1e-9)


def test_brier_is_the_squared_distance_to_the_one_hot_label(predictions):
    probabilities, labels = predictions()
    expected = np.mean(np.sum((probabilities.astype(float) - np.eye(5)[labels]) ** 2, axis=1))
    assert_allclose(scores.brier(probabilities, labels), expected, rtol=1e-12)


def test_closed_forms_of_the_uniform_predictor():
    uniform, labels = np.full((60, 4), 0.25), np.arange(60) % 4
    assert scores.nll(uniform, labels) == pytest.approx(np.log(4))
    assert scores.brier(uniform, labels) == pytest.approx(1 - 1 / 4)
    assert scores.error(uniform, labels) == pytest.approx(3 / 4)


def test_a_sure_and_wrong_prediction_costs_infinitely_much():
    assert scores.nll([[1.0, 0.0]], [1]) == np.inf
    assert scores.brier([[1.0, 0.0]], [1]) == 2.0


def test_the_order_of_examples_does_not_matter(predictions):
    probabilities, labels = predictions()
    order = np.random.default_rng(1).permutation(len(labels))
    for score in (scores.error, scores.nll, scores.brier):
        assert_allclose(score(probabilities[order], labels[order]), score(probabilities, labels), rtol=1e-12)
