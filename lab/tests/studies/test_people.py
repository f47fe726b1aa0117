"""Scores against votes that were drawn from known shares."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import rel_entr
from scipy.stats import entropy, spearmanr

from totalcal.scores import ece
from totalcal_lab.studies.people import (
    entropy_of_votes,
    half_against_half,
    is_ambiguous,
    nll_of_votes,
    one_against_rest,
    people_scores,
    term_correlations,
)

RANDOM = np.random.default_rng(0)
IMAGES, CLASSES, PEOPLE = 20_000, 4, 50
TRUTH = RANDOM.dirichlet([0.3] * CLASSES, size=IMAGES)
VOTES = RANDOM.multinomial(PEOPLE, TRUTH)
MODEL = 0.8 * TRUTH + 0.2 / CLASSES


def test_the_entropy_of_votes_is_nearly_unbiased_where_the_plain_one_is_too_low():
    true = entropy(TRUTH, axis=1).mean()
    plain = entropy(VOTES, axis=1).mean()
    assert true - plain > 0.01
    assert abs(entropy_of_votes(VOTES).mean() - true) < 0.3 * (true - plain)


def test_unanimous_votes_have_no_entropy_and_none_has_more_than_uniform():
    assert_allclose(entropy_of_votes(np.array([[50, 0, 0], [2, 2, 2]])), [0, np.log(3)])


def test_the_nll_and_kl_against_votes_are_those_against_the_true_shares():
    found = people_scores(MODEL, VOTES)
    assert found.people_nll == pytest.approx(-(TRUTH * np.log(MODEL)).sum(1).mean(), rel=0.01)
    assert found.people_kl == pytest.approx(rel_entr(TRUTH, MODEL).sum(1).mean(), abs=0.008)
    assert people_scores(TRUTH.clip(1e-12), VOTES).people_kl == pytest.approx(0, abs=0.008)


def test_calibration_against_shares_is_the_ece_where_everybody_agrees():
    labels = RANDOM.integers(CLASSES, size=500)
    unanimous = PEOPLE * np.eye(CLASSES, dtype=int)[labels]
    found = people_scores(MODEL[:500], unanimous)
    assert found.people_ece == pytest.approx(float(ece(MODEL[:500], labels)))
    assert found.agreement == pytest.approx((MODEL[:500].argmax(1) == labels).mean())
    assert found.people_nll == pytest.approx(-np.log(MODEL[np.arange(500), labels]).mean())
    assert np.isnan(found.auroc_ambiguous)


def test_the_truth_is_calibrated_against_the_shares_of_votes():
    assert people_scores(TRUTH, VOTES).people_ece < 0.01
    assert people_scores(MODEL, VOTES).people_ece > 0.05


def test_denying_a_vote_is_infinitely_wrong_and_denying_none_is_not():
    assert nll_of_votes(np.array([[1.0, 0.0]]), np.array([[3, 1]])) == np.inf
    assert nll_of_votes(np.array([[1.0, 0.0]]), np.array([[3, 0]])) == 0


def test_the_truth_ranks_the_images_better_than_half_of_the_votes_do():
    halves, truth = half_against_half(VOTES, seed=0), people_scores(TRUTH, VOTES)
    assert 0.5 < halves.entropy_correlation < truth.entropy_correlation
    assert truth.people_nll < halves.people_nll


def test_one_person_against_the_rest_is_what_drawing_a_person_gives():
    votes = VOTES[:2000]
    found = one_against_rest(votes)
    drawn = np.array([RANDOM.choice(CLASSES, p=row / row.sum()) for row in votes])
    rest = votes - np.eye(CLASSES, dtype=int)[drawn]
    share = (rest[np.arange(len(rest)), drawn] / rest.sum(1)).mean()
    assert found.agreement == pytest.approx(share, abs=0.02)
    person = np.full((len(rest), CLASSES), (1 - found.agreement) / (CLASSES - 1))
    person[np.arange(len(rest)), drawn] = found.agreement
    assert found.people_nll == pytest.approx(nll_of_votes(person, rest), abs=0.03)
    other = np.where(person == found.agreement, found.agreement - 0.2, 0.2 / (CLASSES - 1) + person)
    assert nll_of_votes(other, rest) > nll_of_votes(person, rest)


def test_an_image_is_ambiguous_below_nine_votes_of_ten():
    assert is_ambiguous(np.array([[9, 1, 0], [8, 1, 1], [50, 0, 0]])).tolist() == [False, True, False]


def test_terms_are_ranked_as_scipy_does_and_a_constant_is_left_out():
    terms = {"data": (MODEL * (1 - MODEL)).sum(1), "irreducible": np.zeros(IMAGES)}
    found = term_correlations(terms, VOTES)
    assert found == {"data_correlation": pytest.approx(spearmanr(terms["data"], entropy_of_votes(VOTES))[0])}
