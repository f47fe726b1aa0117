import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics import average_precision_score, roc_auc_score

from totalcal import scores
from totalcal.errors import InputError

any_scores = st.lists(
    st.one_of(
        st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 1.0, 7.0, np.inf]),
        st.floats(-(2.0**100), 2.0**100, width=32),
    ),
    min_size=1,
    max_size=20,
)


def brute_force_auroc(in_distribution, ood):
    return np.mean([(o > i) + (o == i) / 2 for i, o in itertools.product(in_distribution, ood)])


@settings(deadline=None, max_examples=60)
@given(any_scores, any_scores)
def test_auroc_is_the_share_of_ordered_pairs(in_distribution, ood):
    assert_allclose(scores.auroc(in_distribution, ood), brute_force_auroc(in_distribution, ood), atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(any_scores, any_scores)
def test_fpr95_is_the_best_of_all_thresholds(in_distribution, ood):
    rates = [
        np.mean(np.array(in_distribution) >= threshold)
        for threshold in {*in_distribution, *ood}
        if np.mean(np.array(ood) >= threshold) >= 0.95
    ]
    assert scores.fpr_at_tpr(in_distribution, ood) == pytest.approx(min(rates))


def test_finite_scores_give_what_scikit_learn_gives():
    random = np.random.default_rng(0)
    in_distribution, ood = random.normal(size=300).round(1), random.normal(1, 1, size=200).round(1)
    is_outside = np.repeat([0, 1], [300, 200])
    together = np.concatenate([in_distribution, ood])
    ranking = scores.rank(in_distribution, ood)
    assert_allclose(ranking.auroc, roc_auc_score(is_outside, together))
    assert_allclose(ranking.aupr_out, average_precision_score(is_outside, together))
    assert_allclose(ranking.aupr_in, average_precision_score(1 - is_outside, -together))


def test_all_scores_equal_is_chance():
    assert scores.rank([3.0] * 5, [3.0] * 5) == (0.5, 0.5, 0.5, 1.0)


def test_out_of_domain_is_the_positive_class():
    assert scores.auroc(in_distribution=[0.1, 0.2], ood=[0.8, 0.9]) == 1
    assert scores.auroc(in_distribution=[0.8, 0.9], ood=[0.1, 0.2]) == 0


def test_any_rising_map_leaves_the_ranking_alone():
    random = np.random.default_rng(1)
    in_distribution, ood = random.exponential(size=50), random.exponential(2, size=60)
    assert scores.rank(np.exp(in_distribution) * 1e6, np.exp(ood) * 1e6) == scores.rank(in_distribution, ood)


def test_a_tpr_of_nothing_is_refused():
    with pytest.raises(InputError, match="tpr"):
        scores.fpr_at_tpr([0.1], [0.2], tpr=0)


@st.composite
def confidences_and_mistakes(draw, most=7):
    size = draw(st.integers(1, most))
    confidence = draw(st.lists(st.sampled_from([0.2, 0.5, 0.5, 0.9]), min_size=size, max_size=size))
    mistakes = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    return np.array(confidence), np.array(mistakes)


def mean_over_orders(confidence, losses, area):
    """The area for every order that the confidences allow, averaged: what a tie is worth."""
    values = []
    for order in itertools.permutations(range(len(losses))):
        if all(confidence[i] >= confidence[j] for i, j in itertools.pairwise(order)):
            values.append(area(losses[list(order)]))
    return np.mean(values)


def area_under_risks(ordered):
    return np.mean([ordered[:k].mean() for k in range(1, len(ordered) + 1)])


@settings(deadline=None, max_examples=40)
@given(confidences_and_mistakes(most=6))
def test_aurc_is_the_mean_over_all_orders_of_the_ties(drawn):
    assert_allclose(scores.aurc(*drawn), mean_over_orders(*drawn, area_under_risks), atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(confidences_and_mistakes(most=40))
def test_augrc_has_its_closed_form(drawn):
    confidence, mistakes = drawn
    wrong = mistakes.mean()
    failure_auroc = roc_auc_score(mistakes, -confidence) if 0 < wrong < 1 else 0.5
    assert_allclose(
        scores.augrc(*drawn), (1 - failure_auroc) * wrong * (1 - wrong) + wrong**2 / 2, atol=1e-12
    )


@settings(deadline=None, max_examples=60)
@given(confidences_and_mistakes(most=40))
def test_excess_is_never_negative_and_zero_for_the_best_order(drawn):
    confidence, mistakes = drawn
    assert scores.excess_aurc(confidence, mistakes) >= -1e-12
    assert scores.excess_aurc(1.0 - mistakes, mistakes) == pytest.approx(0)


def test_a_constant_confidence_has_the_risk_of_all_everywhere():
    assert scores.aurc([0.5] * 4, [0, 1, 1, 0]) == pytest.approx(0.5)
    assert scores.operating_points([0.5] * 4, [0, 1, 1, 0]) == [(0.5, 1.0, 0.5)]
