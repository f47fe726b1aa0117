import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import entropy

from totalcal.studies.truth_measures import distance_to, kl_to_truth, rank_correlation, risk_ceiling

RANDOM = np.random.default_rng(0)


def test_kl_is_scipys_relative_entropy_averaged():
    truth, predicted = RANDOM.dirichlet([1, 1, 1], size=20), RANDOM.dirichlet([1, 1, 1], size=20)
    expected = np.mean([entropy(f, h) for f, h in zip(truth, predicted, strict=True)])
    assert_allclose(kl_to_truth(truth, predicted), expected)
    assert kl_to_truth(truth, truth) == 0


def test_denying_what_can_happen_is_infinitely_far_from_the_truth():
    assert kl_to_truth(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])) == np.inf
    assert kl_to_truth(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])) == pytest.approx(np.log(2))


def test_two_classes_reach_a_ceiling_of_one_and_three_do_not():
    two = RANDOM.dirichlet([1, 1], size=200)
    three = RANDOM.dirichlet([1, 1, 1], size=200)
    assert risk_ceiling(two) == pytest.approx(1)
    assert 0.9 < risk_ceiling(three) < 1


def test_a_constant_ranks_nothing():
    assert np.isnan(rank_correlation(np.zeros(5), np.arange(5.0)))


def test_the_distance_is_to_the_nearest_training_point():
    data, inputs = torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[0.0, 1.0], [3.0, 4.0], [6.0, 8.0]])
    assert_allclose(distance_to(data, inputs), [1.0, 0.0, 5.0])
