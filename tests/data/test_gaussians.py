"""The truth of the truth study, against formulas and integrals worked out elsewhere."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from totalcal.data.synthetic import DEFAULT, GaussianTask
from totalcal.errors import InputError


def test_two_unit_gaussians_give_the_logistic_function():
    task = GaussianTask.isotropic([[-1.0], [1.0]], priors=[0.3, 0.7])
    points = np.linspace(-4, 4, 33)
    expected = expit(2 * points + np.log(0.7 / 0.3))
    np.testing.assert_allclose(task.true_probabilities(points[:, None])[:, 1], expected, rtol=1e-12)


def test_the_density_integrates_to_one():
    task = GaussianTask.isotropic([[-1.0], [2.0], [0.5]], scales=[1.0, 0.5, 2.0], priors=[0.2, 0.5, 0.3])
    total, _ = quad(lambda x: np.exp(task.log_density([[x]])[0]), -30, 30, points=[-1, 0.5, 2])
    assert total == pytest.approx(1, abs=1e-8)


def test_the_mean_bayes_risk_is_the_known_error_of_two_equal_classes():
    task = GaussianTask.isotropic([[-1.0], [1.0]])
    risk, _ = quad(lambda x: float(task.bayes_risk([[x]])[0] * np.exp(task.log_density([[x]])[0])), -12, 12)
    assert risk == pytest.approx(norm.cdf(-1), abs=1e-8)


def test_correlated_classes_follow_the_quadratic_formula():
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    task = GaussianTask(
        ((0.0, 0.0), (1.0, 1.0)), (tuple(map(tuple, covariance)), ((1.0, 0.0), (0.0, 1.0))), (0.5, 0.5)
    )
    point = np.array([0.3, -0.7])
    first = -0.5 * point @ np.linalg.inv(covariance) @ point - 0.5 * np.log(np.linalg.det(covariance))
    second = -0.5 * (point - 1) @ (point - 1)
    assert task.true_probabilities(point)[0, 0] == pytest.approx(expit(first - second), rel=1e-12)


@pytest.mark.parametrize("dimensions", [1, 2, 10])
def test_samples_have_the_promised_priors_means_and_spreads(dimensions):
    task = GaussianTask.random(4, dimensions, seed=3)
    inputs, labels = task.sample(60_000, seed=0)
    assert inputs.shape == (60_000, dimensions)
    assert inputs.dtype == np.float32
    np.testing.assert_allclose(np.bincount(labels) / 60_000, task.priors, atol=0.01)
    for label in range(4):
        np.testing.assert_allclose(inputs[labels == label].mean(0), task.means[label], atol=0.1)
        np.testing.assert_allclose(np.cov(inputs[labels == label].T), np.eye(dimensions), atol=0.1)


def test_the_best_classifier_errs_as_often_as_the_bayes_risk_says():
    inputs, labels = DEFAULT.sample(50_000, seed=1)
    errors = DEFAULT.true_probabilities(inputs).argmax(1) != labels
    assert errors.mean() == pytest.approx(DEFAULT.bayes_risk(inputs).mean(), abs=0.01)


def test_true_probabilities_are_calibrated():
    inputs, labels = DEFAULT.sample(50_000, seed=2)
    truth = DEFAULT.true_probabilities(inputs)
    sure = (truth[:, 0] > 0.6) & (truth[:, 0] < 0.7)
    assert (labels[sure] == 0).mean() == pytest.approx(truth[sure, 0].mean(), abs=0.03)


def test_far_away_nothing_becomes_nan():
    far = np.full((1, 2), 1e4)
    assert np.isfinite(DEFAULT.log_density(far)).all()
    np.testing.assert_allclose(DEFAULT.true_probabilities(far).sum(), 1)


def test_samples_follow_their_seed():
    np.testing.assert_array_equal(DEFAULT.sample(5, 0).inputs, DEFAULT.sample(5, 0).inputs)
    assert (DEFAULT.sample(5, 0).inputs != DEFAULT.sample(5, 1).inputs).any()


@pytest.mark.parametrize("priors", [[0.5, 0.6], [1.0, 0.0], [0.5, 0.25, 0.25]])
def test_priors_that_are_none_are_refused(priors):
    with pytest.raises(InputError):
        GaussianTask.isotropic([[0.0], [1.0]], priors=priors)
