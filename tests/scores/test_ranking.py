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


def brute_force_auroc(inside, outside):
    return np.mean([(o > i) + (o == i) / 2 for i, o in itertools.product(inside, outside)])


@settings(deadline=None, max_examples=60)
@given(any_scores, any_scores)
def test_auroc_is_the_share_of_ordered_pairs(inside, outside):
    assert_allclose(scores.auroc(inside, outside), brute_force_auroc(inside, outside), atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(any_scores, any_scores)
def test_fpr95_is_the_best_of_all_thresholds(inside, outside):
    rates = [
        np.mean(np.array(inside) >= threshold)
        for threshold in {*inside, *outside}
        if np.mean(np.array(outside) >= threshold) >= 0.95
    ]
    assert scores.fpr_at_tpr(inside, outside) == pytest.approx(min(rates))


def test_finite_scores_give_what_scikit_learn_gives():
    random = np.random.default_rng(0)
    inside, outside = random.normal(size=300).round(1), random.normal(1, 1, size=200).round(1)
    is_outside = np.repeat([0, 1], [300, 200])
    together = np.concatenate([inside, outside])
    ranking = scores.rank(inside, outside)
    assert_allclose(ranking.auroc, roc_auc_score(is_outside, together))
    assert_allclose(ranking.aupr_out, average_precision_score(is_outside, together))
    assert_allclose(ranking.aupr_in, average_precision_score(1 - is_outside, -together))


def test_all_scores_equal_is_chance():
    assert scores.rank([3.0] * 5, [3.0] * 5) == (0.5, 0.5, 0.5, 1.0)


def test_out_of_domain_is_the_positive_class():
    assert scores.auroc(inside=[0.1, 0.2], outside=[0.8, 0.9]) == 1
    assert scores.auroc(inside=[0.8, 0.9], outside=[0.1, 0.2]) == 0


def test_any_rising_map_leaves_the_ranking_alone():
    random = np.random.default_rng(1)
    inside, outside = random.exponential(size=50), random.exponential(2, size=60)
    assert scores.rank(np.exp(inside) * 1e6, np.exp(outside) * 1e6) == scores.rank(inside, outside)


def test_a_tpr_of_nothing_is_refused():
    with pytest.raises(InputError, match="tpr"):
        scores.fpr_at_tpr([0.1], [0.2], tpr=0)
