"""Scores of a black box, and what people said of its answers."""

import numpy as np
import pytest
import torch
from sklearn.isotonic import IsotonicRegression

from totalcal import judge_scores
from totalcal.errors import InputError, ShapeError

RISK = 0.1


def judged(rows, noise):
    """A judge that says .95 of nine answers in ten, of which one in 15 is wrong; the others are worse."""
    tied = noise.random(rows) < 0.9
    scores = np.where(tied, 0.95, noise.random(rows).round(1))
    return scores, noise.random(rows) < np.where(tied, 14 / 15, scores / 2)


def risks(repetitions, rows):
    """How often more than RISK of the accepted answers are wrong, and how often any is accepted."""
    above, any_at_all = [], []
    for seed in range(repetitions):
        noise = np.random.default_rng(seed)
        found = judge_scores(*judged(rows, noise), risk=RISK)
        scores, right = judged(20_000, noise)
        accepted = found.accepts(scores)
        any_at_all.append(accepted.any())
        above.append(accepted.any() and (~right[accepted]).mean() > RISK + 0.006)  # 20,000 rows measure it
    return np.mean(above), np.mean(any_at_all)


def test_the_risk_is_kept_with_its_confidence_among_many_ties():
    above, any_at_all = risks(40, 2000)
    assert above <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 40)
    assert any_at_all > 0.5


@pytest.mark.exhaustive
@pytest.mark.parametrize("rows", [100, 400, 2000])
def test_the_risk_is_kept_over_five_hundred_sets_of_verdicts(rows):
    assert risks(500, rows)[0] <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 500)


def test_probabilities_are_isotonic_with_one_more_row():
    noise = np.random.default_rng(0)
    scores, right = judged(80, noise)
    low, high = judge_scores(scores, right).probabilities([0.95, 0.31, 2.0])
    for place, score in enumerate([0.95, 0.31, 2.0]):
        for value, found in ((0.0, low), (1.0, high)):
            fitted = IsotonicRegression(out_of_bounds="clip").fit([*scores, score], [*right, value])
            assert found[place] == pytest.approx(fitted.predict([score])[0], abs=1e-9)
    assert (low <= high).all()


def gaps(repetitions, rows):
    """The probability less the share that is right, of all answers and of tied ones."""
    found = []
    for seed in range(repetitions):
        noise = np.random.default_rng(seed)
        known = judge_scores(*judged(rows, noise))
        scores, right = judged(2000, noise)
        off = known.probability(scores) - right
        found.append([off.mean(), off[scores == 0.95].mean()])
    return np.mean(found, 0), np.std(found, 0) / np.sqrt(repetitions)


def test_probabilities_are_calibrated_on_average_over_sets_of_verdicts():
    means, errors = gaps(40, 200)
    assert (np.abs(means) < 3 * errors + 0.01).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize("rows", [50, 200, 1000])
def test_probabilities_are_calibrated_over_five_hundred_sets_of_verdicts(rows):
    means, errors = gaps(500, rows)
    assert (np.abs(means) < 3 * errors + 1 / rows + 0.005).all()  # one row more is right, and one is wrong


def test_so_many_more_verdicts_are_enough_about_half_of_the_time():
    enough = []
    for seed in range(40):
        noise = np.random.default_rng(seed)
        scores, right = noise.random(120) < 0.8, np.ones(120, dtype=bool)
        right[~scores] = noise.random((~scores).sum()) < 0.5
        found = judge_scores(scores, right)
        more = found.more_verdicts
        assert more > 0
        assert "more verdicts" in str(found)
        extra = noise.random(more) < 0.8
        truth = np.where(extra, True, noise.random(more) < 0.5)
        enough.append(judge_scores([*scores, *extra], [*right, *truth]).threshold is not None)
    assert np.mean(enough) > 0.5


def test_where_the_best_are_wrong_too_often_more_verdicts_are_no_help():
    noise = np.random.default_rng(0)
    found = judge_scores(noise.random(300), noise.random(300) < 0.5)
    assert found.more_verdicts is None
    assert not found.accepts([1.0]).any()


def test_what_are_no_scores_is_refused():
    with pytest.raises(ShapeError):
        judge_scores([0.5], [True, False])
    with pytest.raises(InputError):
        judge_scores([np.nan], [True])


@pytest.mark.parametrize(
    "verdicts", [["yes", "no"], ["True", "False"], [0.9, 0.2], [1, 2], [True, None], [1, np.nan]]
)
def test_verdicts_that_are_neither_true_nor_false_are_refused(verdicts):
    with pytest.raises(InputError, match="true or false"):
        judge_scores([0.9, 0.2], verdicts)


@pytest.mark.parametrize(
    "verdicts", [[1, 0], [1.0, 0.0], np.array([True, False], dtype=object), torch.tensor([True, False])]
)
def test_verdicts_may_be_zeros_and_ones(verdicts):
    assert judge_scores([0.9, 0.2], verdicts).right == (True, False)
