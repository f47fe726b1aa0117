import math
import statistics

import numpy as np
import pytest
from scipy import stats

from totalcal.errors import InputError, UnknownNameError
from totalcal.report import (
    ASPECTS,
    SCORES,
    Summary,
    better,
    by_seed,
    describe,
    is_score,
    paired_difference,
    show,
    summarise,
    unbeaten,
)


def test_noise_beats_nobody():
    random = np.random.default_rng(1)
    values = {name: dict(enumerate(random.normal(size=10))) for name in ("a", "b")}
    assert unbeaten("nll", values) == {"a", "b"}


@pytest.mark.parametrize("seeds", [2, 5, 400])
def test_p_value_and_interval_are_those_of_scipys_paired_t(seeds):
    random = np.random.default_rng(2)
    first, second = random.normal(1.0, 1.0, size=seeds), random.normal(size=seeds)
    found = paired_difference(dict(enumerate(first)), dict(enumerate(second)))
    truth = stats.ttest_rel(first, second)
    interval = truth.confidence_interval(0.95)
    assert found.mean == pytest.approx((first - second).mean())
    assert found.p_value == pytest.approx(truth.pvalue)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


DIFFERENCES = {
    "normal": lambda random, shape: random.normal(size=shape),
    "student, 3 degrees of freedom": lambda random, shape: random.standard_t(3, size=shape),
    "cauchy": lambda random, shape: random.standard_cauchy(size=shape),
    "one image of few": lambda random, shape: random.integers(-1, 2, size=shape) / 360,
    "a coin": lambda random, shape: random.choice([-1.0, 1.0], size=shape),
}


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
@pytest.mark.parametrize("kind", DIFFERENCES)
def test_equal_models_are_called_different_no_more_often_than_promised(kind, seeds):
    """Differences around 0: at most 5 % found different; a bootstrap found 52 % at 2 seeds, 12 % at 5."""
    trials = 2000
    drawn = DIFFERENCES[kind](np.random.default_rng(seeds), (trials, seeds))
    even = dict.fromkeys(range(seeds), 0.0)
    found = sum(paired_difference(dict(enumerate(row)), even).is_real() for row in drawn)
    assert found / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def test_of_many_equal_models_none_is_called_beaten_in_nineteen_of_twenty_tables():
    random, trials = np.random.default_rng(3), 200
    tables = random.normal(size=(trials, 6, 5))  # 6 models, 5 seeds
    names = "abcdef"
    beaten = sum(
        unbeaten("nll", {name: dict(enumerate(row)) for name, row in zip(names, table, strict=True)})
        != set(names)
        for table in tables
    )
    assert beaten / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


@pytest.mark.parametrize(
    ("first", "second"),
    [({}, {0: 1.0}), ({0: 1.0, 1: 2.0}, {1: 1.0, 2: 2.0}), ({0: 1.0, 1: 2.0}, {0: 2.0, 1: 3.0})],
)
def test_too_few_seeds_to_tell_is_said(first, second):
    """None in common, one in common, two whose differences are the same to the digit."""
    difference = paired_difference(first, second)
    assert not difference.can_tell()
    assert difference.in_words() == "too few seeds to tell"
    assert unbeaten("nll", {"a": first, "b": second}) == {"a", "b"}


def test_six_equal_differences_are_enough_by_the_signs_alone():
    """All six of one sign: 2 / 2⁶ = .031 by a sign-flip permutation test; five would be .0625."""
    six, five = dict.fromkeys(range(6), 0.1), dict.fromkeys(range(5), 0.1)
    even = dict.fromkeys(range(6), 0.0)
    assert paired_difference(six, even).p_value == pytest.approx(2 / 2**6)
    assert paired_difference(six, even).is_real()
    assert paired_difference(five, even).in_words() == "too few seeds to tell"


def test_a_difference_of_nothing_but_zeros_is_no_difference():
    same = {0: 0.3, 1: 0.4}
    assert paired_difference(same, same).in_words() == "no difference found"


RECORDS = [
    {"task": "iris", "preset": "paper", "model": model, "seed": seed, "epochs": 9, "nll": value, "wall": 3.0}
    for model, seed, value in [("etp", 0, 0.5), ("etp", 1, 0.25), ("bnn", 0, 1.0), ("etp", 1, 0.75)]
]


def test_a_summary_is_the_mean_and_the_sample_standard_deviation():
    values = [0.1, 0.7, 0.4, 0.4]
    summary = summarise(values)
    assert summary.mean == pytest.approx(statistics.mean(values))
    assert summary.std == pytest.approx(statistics.stdev(values))
    assert summary.n == 4


def test_one_seed_has_no_standard_deviation_and_none_is_an_error():
    assert math.isnan(summarise([1.0]).std)
    with pytest.raises(InputError):
        summarise([])


def test_by_seed_pairs_the_runs():
    assert by_seed(RECORDS, "nll") == {"etp": {0: 0.5, 1: 0.75}, "bnn": {0: 1.0}}


def test_a_panel_member_is_shown_as_its_score_is():
    assert show("auroc/mnist", Summary(0.9, 0.009, 10)) == "90.0 ± 0.9"


def test_an_infinite_score_is_beaten_by_finite_ones_and_by_no_other_infinite_one() -> None:
    finite, infinite = {0: 0.3, 1: 0.31, 2: 0.29}, dict.fromkeys(range(3), math.inf)
    once = {0: 0.1, 1: math.inf, 2: 0.1}
    assert unbeaten("nll", {"a": finite, "b": infinite, "c": once}) == {"a"}
    assert unbeaten("nll", {"b": infinite, "c": infinite}) == {"b", "c"}


def test_a_panel_member_is_a_score_and_a_setting_is_not():
    assert is_score("auroc/mnist")
    assert not is_score("epochs")
    assert not is_score("majority_error")


def test_the_three_aspects_have_known_scores():
    assert set(ASPECTS.values()) <= set(SCORES)


def test_directions():
    assert better("nll", 0.1, 0.2)
    assert better("auroc/mnist", 0.2, 0.1)


def test_an_unknown_score_is_refused_with_a_hint():
    with pytest.raises(UnknownNameError, match="Did you mean 'auroc'"):
        describe("aurok")


def test_who_is_unbeaten_among_all_is_unbeaten_among_some():
    rng = np.random.default_rng(0)
    told = 0
    for _ in range(200):
        table = {name: dict(enumerate(rng.normal(place / 2, 0.5, 5))) for place, name in enumerate("abcdef")}
        everywhere, among = unbeaten("nll", table), unbeaten("nll", table, among="def")
        assert everywhere & set("def") <= among <= set("def")
        told += among != set("def")
    assert told  # some are beaten by others of theirs
