"""The joint score against products by hand; sets that lie near two anchors."""

import itertools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from totalcal.scores import nll
from totalcal_lab.grid.joint import dyadic_sets, joint_nll, joint_nll_of_draws


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
    assert_allclose(joint_nll_of_draws(draws, labels, sets), np.mean(expected))


def test_sets_of_one_give_the_marginal_nll(draws):
    labels = np.array([0, 1, 2, 0, 1, 2])
    singles = np.arange(6)[:, None]
    assert_allclose(joint_nll_of_draws(draws, labels, singles), nll(draws.mean(axis=0), labels))


def test_all_labels_of_a_set_have_probability_one_together(draws):
    pair = np.array([[0, 1]])
    chances = []
    for first, second in itertools.product(range(3), repeat=2):
        labels = np.array([first, second, 0, 0, 0, 0])
        chances.append(np.exp(-joint_nll_of_draws(draws, labels, pair)))
    assert sum(chances) == pytest.approx(1)


def test_members_that_agree_earn_more_than_their_marginals():
    """Two sure draws that contradict each other: each label is a coin, but the coins fall alike."""
    draws = np.array([[[0.99, 0.01]] * 4, [[0.01, 0.99]] * 4])
    alike, labels = np.array([[0, 1, 2, 3]]), np.zeros(4, dtype=int)
    marginal = 4 * nll(draws.mean(axis=0), labels)
    assert joint_nll_of_draws(draws, labels, alike) < marginal / 3


def test_a_predictors_own_joint_is_asked_once_for_each_set():
    seen = []

    def log_joint(inputs, labels):
        seen.append((inputs.squeeze(1).tolist(), labels.tolist()))
        return torch.tensor(-float(len(labels)))

    inputs, labels = torch.arange(4.0)[:, None], torch.tensor([0, 1, 0, 1])
    assert joint_nll(log_joint, inputs, labels, np.array([[0, 1], [3, 2]])) == 2
    assert seen == [([0.0, 1.0], [0, 1]), ([3.0, 2.0], [1, 0])]


def test_dyadic_sets_lie_near_two_anchors():
    random = np.random.default_rng(3)
    centres = np.arange(20)[:, None] * 100.0
    inputs = (centres + random.normal(size=(20, 5))).reshape(-1, 1)  # twenty heaps of five
    sets = dyadic_sets(torch.from_numpy(inputs), sets=200, size=10, neighbours=5, seed=1)
    assert sets.shape == (200, 10)
    heaps = [len(np.unique(rows // 5)) for rows in sets]
    assert set(heaps) <= {1, 2}
    assert_allclose(sets, dyadic_sets(torch.from_numpy(inputs), sets=200, size=10, neighbours=5, seed=1))
