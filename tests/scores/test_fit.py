import itertools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.metrics import accuracy_score, log_loss

from totalcal import scores
from totalcal.errors import InputError, ShapeError


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


@pytest.fixture
def draws():
    random = np.random.default_rng(0)
    return random.dirichlet(np.ones(3), size=(4, 6))  # [draws, examples, classes]


def test_the_joint_is_the_mean_over_draws_of_the_product(draws):
    labels, sets = np.array([0, 1, 2, 0, 1, 2]), np.array([[0, 1], [2, 2], [5, 3]])
    expected = [
        -np.log(np.mean([np.prod([draw[row, labels[row]] for row in rows]) for draw in draws]))
        for rows in sets
    ]
    assert_allclose(scores.joint_nll_of_draws(draws, labels, sets), np.mean(expected))


def test_sets_of_one_give_the_marginal_nll(draws):
    labels = np.array([0, 1, 2, 0, 1, 2])
    singles = np.arange(6)[:, None]
    assert_allclose(scores.joint_nll_of_draws(draws, labels, singles), scores.nll(draws.mean(axis=0), labels))


def test_all_labels_of_a_set_have_probability_one_together(draws):
    pair = np.array([[0, 1]])
    chances = []
    for first, second in itertools.product(range(3), repeat=2):
        labels = np.array([first, second, 0, 0, 0, 0])
        chances.append(np.exp(-scores.joint_nll_of_draws(draws, labels, pair)))
    assert sum(chances) == pytest.approx(1)


def test_members_that_agree_earn_more_than_their_marginals():
    """Two sure draws that contradict each other: each label is a coin, but the coins fall alike."""
    draws = np.array([[[0.99, 0.01]] * 4, [[0.01, 0.99]] * 4])
    alike, labels = np.array([[0, 1, 2, 3]]), np.zeros(4, dtype=int)
    marginal = 4 * scores.nll(draws.mean(axis=0), labels)
    assert scores.joint_nll_of_draws(draws, labels, alike) < marginal / 3


def test_a_predictors_own_joint_is_asked_once_for_each_set():
    seen = []

    def log_joint(inputs, labels):
        seen.append((inputs.squeeze(1).tolist(), labels.tolist()))
        return torch.tensor(-float(len(labels)))

    inputs, labels = torch.arange(4.0)[:, None], torch.tensor([0, 1, 0, 1])
    assert scores.joint_nll(log_joint, inputs, labels, [[0, 1], [3, 2]]) == 2
    assert seen == [([0.0, 1.0], [0, 1]), ([3.0, 2.0], [1, 0])]


def test_dyadic_sets_lie_near_two_anchors():
    random = np.random.default_rng(3)
    centres = np.arange(20)[:, None] * 100.0
    inputs = (centres + random.normal(size=(20, 5))).reshape(-1, 1)  # twenty heaps of five
    sets = scores.dyadic_sets(inputs, sets=200, size=10, neighbours=5, seed=1)
    assert sets.shape == (200, 10)
    heaps = [len(np.unique(rows // 5)) for rows in sets]
    assert set(heaps) <= {1, 2}
    assert_allclose(sets, scores.dyadic_sets(inputs, sets=200, size=10, neighbours=5, seed=1))


def test_bad_sets_and_draws_are_refused(draws):
    with pytest.raises(InputError, match="row 6"):
        scores.joint_nll_of_draws(draws, [0] * 6, [[0, 6]])
    with pytest.raises(ShapeError, match="sets × size"):
        scores.joint_nll_of_draws(draws, [0] * 6, [0, 1])
    with pytest.raises(ShapeError, match="draws × examples"):
        scores.joint_nll_of_draws(draws[0], [0] * 6, [[0, 1]])
    with pytest.raises(InputError, match="neighbours"):
        scores.dyadic_sets(np.zeros((3, 1)), neighbours=4)
