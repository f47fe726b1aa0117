"""Promises, checked by simulation: populations whose true rates are known in closed form."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import binom, binomtest

from totalcal import softmax
from totalcal.decisions import Coverage, FalseRejection, Risk
from totalcal.decisions.rules import is_accepted, rows_for
from totalcal.errors import GateError, InputError
from totalcal.nets import mlp

DRAWS = 2000


def held_out(generator, rows, levels=None):
    """Scores uniform on [0, 1] (or on so many levels), and a row of score s is wrong with probability s²."""
    scores = generator.random(rows)
    if levels:
        scores = (np.floor(scores * levels) + 1) / levels
    return scores, generator.random(rows) < scores**2


def accepted_share(threshold):
    return min(max(threshold, 0.0), 1.0)


def true_risk(threshold):
    """P(wrong | score ≤ t) = ∫₀ᵗ s² ds / t = t² / 3."""
    return accepted_share(threshold) ** 2 / 3


def promised(rule, scores, wrong):
    """The threshold, or one that accepts nothing where the rule refuses to promise."""
    try:
        return rule.threshold(scores, wrong)
    except GateError:
        return -math.inf


def right_rejected(threshold):
    """P(score > t | right), with P(right, score ≤ t) = t − t³ / 3."""
    t = accepted_share(threshold)
    return 1 - (t - t**3 / 3) / (2 / 3)


@pytest.mark.parametrize(("rows", "share"), [(39, 0.9), (200, 0.5)])
def test_coverage_is_kept_on_average_and_hardly_more(rows, share):
    generator = np.random.default_rng(0)
    shares = [accepted_share(Coverage(share).threshold(*held_out(generator, rows))) for _ in range(DRAWS)]
    noise = 4 * np.std(shares) / math.sqrt(DRAWS)
    assert share - noise < np.mean(shares) < share + 1 / (rows + 1) + noise


def test_false_rejections_keep_their_rate_on_average_and_waste_little():
    generator = np.random.default_rng(1)
    rates = [right_rejected(FalseRejection().threshold(*held_out(generator, 150))) for _ in range(DRAWS)]
    noise = 4 * np.std(rates) / math.sqrt(DRAWS)
    assert 0.05 - 1 / 80 - noise < np.mean(rates) < 0.05 + noise


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_risk_is_broken_no_more_often_than_confidence_allows(confidence):
    generator = np.random.default_rng(2)
    rule = Risk(limit=0.1, confidence=confidence)
    thresholds = [promised(rule, *held_out(generator, 300)) for _ in range(DRAWS // 4)]
    broken = sum(true_risk(threshold) > 0.1 for threshold in thresholds)
    assert broken <= binom.ppf(0.9999, DRAWS // 4, 1 - confidence)


def test_risk_holds_for_scores_with_many_ties():
    generator, rule = np.random.default_rng(3), Risk(limit=0.15, confidence=0.8)
    levels = np.arange(1, 6) / 5
    broken = 0
    for _ in range(DRAWS // 4):
        accepted = levels[levels <= promised(rule, *held_out(generator, 300, levels=5))]
        broken += accepted.size > 0 and np.mean(accepted**2) > 0.15
    assert broken <= binom.ppf(0.9999, DRAWS // 4, 0.2)


def test_the_price_of_the_guarantee_is_small_with_many_rows():
    scores, wrong = held_out(np.random.default_rng(4), 20_000)
    best = math.sqrt(3 * 0.1)  # where the true risk is 0.1
    assert best - 0.1 < Risk(0.1).threshold(scores, wrong) <= best


def test_a_risk_that_all_rows_keep_rejects_none():
    scores = np.linspace(0, 1, 400)
    assert Risk(0.05).threshold(scores, np.zeros(400, bool)) >= 1


@pytest.mark.parametrize(("mistakes", "accepted"), [(0, 50), (3, 100), (40, 41), (7, 7)])
def test_the_bound_of_a_risk_is_that_of_clopper_and_pearson(mistakes, accepted):
    interval = binomtest(mistakes, accepted, alternative="less").proportion_ci(1 - 0.05 / 20, method="exact")
    bound = Risk(0.1, 0.95).bounds(np.array([mistakes]), np.array([accepted]))
    assert_allclose(bound, [interval.high], rtol=1e-9)


def test_too_few_rows_for_a_risk_say_how_many_it_takes():
    with pytest.raises(GateError, match="it takes 597 accepted rows"):
        Risk(0.01).threshold(np.linspace(0, 1, 500), np.zeros(500, bool))
    assert Risk(0.01).threshold(np.linspace(0, 1, 597), np.zeros(597, bool)) == math.inf


def test_nineteen_right_answers_are_what_five_per_cent_take():
    scores = np.linspace(0, 1, 19)
    assert FalseRejection().threshold(scores, np.zeros(19, bool)) == 1
    with pytest.raises(GateError, match=r"at least 19.*18"):
        FalseRejection().threshold(scores[:18], np.zeros(18, bool))


@pytest.mark.parametrize("make", [FalseRejection, Coverage, Risk])
@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, math.nan])
def test_a_share_outside_of_the_open_interval_is_refused(make, value):
    with pytest.raises(InputError):
        make(value)


@pytest.mark.parametrize("size_of_logits", [1, 30, 100])
def test_a_row_alone_is_not_above_a_threshold_that_is_its_own_score_in_a_batch(size_of_logits):
    torch.manual_seed(0)
    net, rows = mlp(50, 10, hidden=(300,)), torch.randn(300, 50)
    with torch.no_grad():
        net.classes.weight *= size_of_logits
    model = softmax(net, num_classes=10)
    together = model.predict(rows).entropy.numpy()
    alone = torch.cat([model.predict(row).entropy for row in rows.split(1)]).numpy()
    assert is_accepted(alone, together).all()


def test_a_bar_needs_two_rows_beyond_it():
    for rate in (0.01, 0.05, 0.1, 0.3):
        rows = rows_for(rate)
        assert (rows + 1) * rate >= 2 > rows * rate
