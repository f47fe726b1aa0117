import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from netcal.metrics import ECE, MCE
from numpy.testing import assert_allclose

from totalcal import scores
from totalcal.errors import InputError, UnknownNameError


def brute_force_ece(confidence, correct, bins):
    total = 0.0
    for low, high in itertools.pairwise(m / bins for m in range(bins + 1)):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            total += inside.mean() * abs(confidence[inside].mean() - correct[inside].mean())
    return total


@st.composite
def two_class_predictions(draw):
    """Confidences on bin edges, ties, constants, certainty."""
    confidence = draw(st.lists(st.sampled_from([0.5, 0.6, 2 / 3, 0.8, 0.9, 1.0]), min_size=1, max_size=30))
    labels = draw(st.lists(st.integers(0, 1), min_size=len(confidence), max_size=len(confidence)))
    first = np.array(confidence)
    return np.stack([first, 1 - first], axis=1), np.array(labels)


@settings(deadline=None, max_examples=50)
@given(two_class_predictions(), st.integers(1, 40))
def test_ece_is_the_papers_sum_over_half_open_bins(drawn, bins):
    probabilities, labels = drawn
    confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    assert_allclose(
        scores.ece(probabilities, labels, bins).value, brute_force_ece(confidence, correct, bins), atol=1e-12
    )


@pytest.mark.parametrize("classes", [3, 10])
@pytest.mark.parametrize("bins", [1, 15, 100])
def test_ece_and_its_maximum_are_netcals(predictions, classes, bins):
    probabilities, labels = predictions(classes=classes)
    found = float(scores.ece(probabilities, labels, bins))
    assert_allclose(found, ECE(bins).measure(probabilities, labels), rtol=1e-5)
    maximum = scores.ece(probabilities, labels, bins, norm="max")
    assert_allclose(float(maximum), MCE(bins).measure(probabilities, labels), rtol=1e-5)


def test_a_value_carries_its_bins(predictions):
    probabilities, labels = predictions()
    value = scores.ece(probabilities, labels, bins=7)
    assert (value.scheme, value.bins, sum(value.counts), len(value.counts)) == ("equal_width", 7, 500, 7)


def test_equal_mass_bins_hold_equally_many(predictions):
    probabilities, labels = predictions(examples=1000)
    assert scores.ece(probabilities, labels, bins=10, scheme="equal_mass").counts == (100,) * 10


def test_equal_mass_ece_is_the_mean_over_slices_of_the_sorted_set(predictions):
    probabilities, labels = predictions(examples=1000)
    exact = probabilities.astype(float)
    excess = exact.max(axis=1) - (exact.argmax(axis=1) == labels)
    slices = np.split(excess[exact.max(axis=1).argsort()], 10)
    value = scores.ece(probabilities, labels, bins=10, scheme="equal_mass").value
    assert_allclose(value, np.mean([abs(part.mean()) for part in slices]), rtol=1e-9)


def test_equal_mass_does_not_tear_a_tie_apart():
    probabilities = np.tile([0.7, 0.3], (10, 1))
    value = scores.ece(probabilities, [0] * 6 + [1] * 4, bins=5, scheme="equal_mass")
    assert value.counts == (10,)
    assert value.value == pytest.approx(0.1)


def test_the_l2_norm_is_the_root_of_the_weighted_squares():
    probabilities = [[0.9, 0.1]] * 3 + [[0.6, 0.4]]
    value = scores.ece(probabilities, [0, 0, 0, 1], bins=10, norm="l2")
    assert value.value == pytest.approx(np.sqrt(0.75 * 0.1**2 + 0.25 * 0.6**2))


def test_a_calibrated_set_scores_zero_on_every_variant():
    probabilities, labels = np.tile([0.75, 0.25], (8, 1)), [0, 0, 0, 1] * 2
    for norm in ("l1", "l2", "max"):
        assert scores.ece(probabilities, labels, norm=norm).value == pytest.approx(0)
    assert scores.classwise_ece(probabilities, labels).value == pytest.approx(0)
    assert scores.debiased_calibration_error(probabilities, labels).value == 0
    assert scores.smooth_ece(probabilities, labels).value == pytest.approx(0, abs=1e-3)


def test_classwise_is_the_mean_over_one_against_the_rest(predictions):
    probabilities, labels = predictions(classes=3)
    exact = probabilities.astype(float)
    expected = np.mean([brute_force_ece(exact[:, k], labels == k, 15) for k in range(3)])
    value = scores.classwise_ece(probabilities, labels)
    assert_allclose(value.value, expected, rtol=1e-12)
    assert sum(value.counts) == 3 * 500
    assert sum(scores.classwise_ece(probabilities, labels, scheme="equal_mass").counts) == 3 * 500


def test_the_debiased_square_is_unbiased_over_all_labels():
    """Over every outcome of six coins of one confidence the mean of value² is the true squared gap."""
    confidence, truth, size = 0.95, 0.2, 6
    probabilities = np.tile([confidence, 1 - confidence], (size, 1))
    expected = plain = 0.0
    for labels in itertools.product([0, 1], repeat=size):
        chance = np.prod([truth if label == 0 else 1 - truth for label in labels])
        expected += chance * scores.debiased_calibration_error(probabilities, labels, bins=1).value ** 2
        plain += chance * scores.ece(probabilities, labels, bins=1, norm="l2").value ** 2
    gap = (confidence - truth) ** 2
    assert plain - gap == pytest.approx(truth * (1 - truth) / size)  # the bias that is taken away
    assert expected == pytest.approx(gap, abs=1e-3)  # not exact: the cut at 0 is in it


def test_the_debiased_error_is_the_mean_over_pairs(predictions):
    probabilities, labels = predictions(examples=60)
    exact = probabilities.astype(float)
    excess = exact.max(axis=1) - (exact.argmax(axis=1) == labels)
    pairs = [excess[i] * excess[j] for i, j in itertools.permutations(range(60), 2)]
    value = scores.debiased_calibration_error(probabilities, labels, bins=1).value
    assert_allclose(value, np.sqrt(np.mean(pairs)), rtol=1e-9)


def test_smooth_ece_solves_its_own_definition(predictions):
    """At σ = value the reflected-kernel integral, by brute force on a finer grid, gives the value back."""
    probabilities, labels = predictions(examples=200)
    exact = probabilities.astype(float)
    confidence = exact.max(axis=1)
    residual = (exact.argmax(axis=1) == labels) - confidence
    value = scores.smooth_ece(probabilities, labels).value
    points = (np.arange(2000) + 0.5) / 2000
    images = np.concatenate([sign * confidence + shift for sign in (1, -1) for shift in range(-4, 5, 2)])
    kernel = np.exp(-0.5 * ((points[:, None] - images) / value) ** 2) / (value * np.sqrt(2 * np.pi))
    integral = np.abs((kernel * np.tile(residual, 10)).sum(axis=1) / 200).mean()
    assert_allclose(value, integral, atol=1e-3)


def test_smooth_ece_of_one_sure_mistake_is_large_and_moves_smoothly():
    at = [scores.smooth_ece([[c, 1 - c]] * 50, [1] * 50).value for c in (0.799, 0.8, 0.801)]
    assert abs(at[0] - at[2]) < 0.003
    assert at[1] > 0.4


def test_the_direction_says_who_claims_too_much():
    sure = scores.reliability([[0.99, 0.01]] * 4, [0, 1, 0, 1])
    timid = scores.reliability([[0.55, 0.45]] * 4, [0, 0, 0, 0])
    assert (sure.direction, timid.direction) == ("overconfident", "underconfident")
    assert sure.overconfidence == pytest.approx(0.49)
    assert timid.underconfidence == pytest.approx(0.45)


def test_over_and_underconfidence_add_up_to_the_ece(predictions):
    probabilities, labels = predictions()
    curve = scores.reliability(probabilities, labels)
    assert_allclose(curve.overconfidence + curve.underconfidence, scores.ece(probabilities, labels).value)


def test_unknown_schemes_and_norms_and_no_bins_are_refused(predictions):
    probabilities, labels = predictions()
    with pytest.raises(UnknownNameError, match="equal_mass"):
        scores.ece(probabilities, labels, scheme="equal_masses")
    with pytest.raises(UnknownNameError, match="l1"):
        scores.ece(probabilities, labels, norm="l3")
    with pytest.raises(InputError, match="bins"):
        scores.ece(probabilities, labels, bins=0)
