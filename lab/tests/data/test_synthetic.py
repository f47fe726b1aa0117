"""Generated data: drawn by seed, of the promised shape and range.

The Gaussians of the truth study are held against formulas and integrals worked out elsewhere.
"""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from totalcal.data import LETTERS, LOOK_LIKE_DIGITS, letters
from totalcal.errors import InputError, ShapeError
from totalcal_lab.data.synthetic import (
    DEFAULT,
    SYNTHETIC_OOD,
    GaussianTask,
    synthetic_ood,
)
from totalcal_lab.data.text import random_tokens


def test_all_letters_are_drawn_or_look_like_digits():
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    assert sorted(LETTERS + LOOK_LIKE_DIGITS) == sorted(alphabet)


@pytest.mark.parametrize("size", [8, 28, 64])
def test_letters_fill_a_picture_of_any_size_with_ink(size):
    images, labels = letters(size=size, count=40, seed=1)
    assert images.shape == (40, size, size)
    assert (images.reshape(40, -1).max(1) > 100).all()
    assert (images.reshape(40, -1).min(1) == 0).all()
    assert labels.max() < len(LETTERS)


def test_letters_have_about_the_ink_of_digits():
    from totalcal_lab.data import load_set

    assert letters(size=8, count=300).inputs.mean() == pytest.approx(load_set("digits")[0].mean(), rel=0.25)


def test_the_same_seed_draws_the_same_letters_and_another_others():
    first, again, other = (letters(size=8, count=20, seed=seed).inputs for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_one_letter_comes_in_many_faces():
    images, labels = letters(size=28, count=300)
    same = images[labels == labels[0]]
    assert len(np.unique(same.reshape(len(same), -1), axis=0)) == len(same)


def test_random_tokens_are_uniform_from_one_to_a_thousand():
    tokens = random_tokens(count=1000).inputs
    assert tokens.shape == (1000, 500)
    assert (tokens.min(), tokens.max()) == (1, 1000)
    counts = np.bincount(tokens.ravel(), minlength=1001)[1:]
    # chi-square of 999 degrees has mean 999 and deviation 45
    assert abs(((counts - 500) ** 2 / 500).sum() - 999) < 5 * 45


def test_random_tokens_follow_their_seed():
    np.testing.assert_array_equal(random_tokens(3, 4, seed=5).inputs, random_tokens(3, 4, seed=5).inputs)


@pytest.fixture(params=[(20, 9, 9), (20, 9, 9, 3)])
def images(request, draw):
    return draw.integers(256, size=request.param, dtype=np.uint8)


@pytest.mark.parametrize("name", SYNTHETIC_OOD)
def test_a_set_has_the_shape_of_the_images_and_follows_from_the_seed(name, images):
    before = images.copy()
    made = synthetic_ood(name, images)
    assert made.shape == images.shape
    assert made.dtype == np.uint8
    assert (made == synthetic_ood(name, images)).all()
    assert (images == before).all()


def test_images_are_turned_a_quarter_and_stood_on_their_heads(images):
    for row in range(9):
        for column in range(9):
            assert (synthetic_ood("rotated-90", images)[:, 8 - column, row] == images[:, row, column]).all()
            assert (synthetic_ood("upside-down", images)[:, 8 - row, column] == images[:, row, column]).all()


def test_inversion_is_its_own_inverse(images):
    inverted = synthetic_ood("inverted", images)
    assert (inverted.astype(int) + images == 255).all()


def test_a_constant_image_has_one_level_per_channel_and_images_differ(images):
    made = synthetic_ood("constant", images)
    assert (made == made[:, :1, :1]).all()
    assert len(np.unique(made.reshape(len(made), -1), axis=0)) > 10


def test_shuffled_pixels_keep_their_channels_and_each_image_has_its_own_order(images):
    pixels = images.reshape(20, 81, -1)
    made = synthetic_ood("shuffled-pixels", images).reshape(20, 81, -1)
    for before, after in zip(pixels.tolist(), made.tolist(), strict=True):
        assert sorted(before) == sorted(after)
    ramp = np.tile(np.arange(81, dtype=np.uint8).reshape(1, 9, 9), (20, 1, 1))
    orders = synthetic_ood("shuffled-pixels", ramp).reshape(20, 81)
    assert len(np.unique(orders, axis=0)) == 20


def test_noise_is_uniform_over_all_levels():
    from scipy.stats import chisquare

    noise = synthetic_ood("uniform-noise", np.zeros((100, 28, 28), np.uint8))
    assert chisquare(np.bincount(noise.ravel(), minlength=256)).pvalue > 1e-3


def test_oblong_images_cannot_be_rotated():
    with pytest.raises(ShapeError, match="square"):
        synthetic_ood("rotated-90", np.zeros((1, 4, 6), np.uint8))


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
