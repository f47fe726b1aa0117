import math
import statistics

import numpy as np
import pytest
from scipy import stats

from totalcal.errors import InputError, UnknownNameError
from totalcal.report import (
    Summary,
    aggregate,
    bold,
    by_seed,
    has_learned,
    in_words,
    paired_difference,
    show,
    summarise,
    unbeaten,
    winners,
)
from totalcal_lab.records import paper

PRINTED = [
    (task, score, model, entry.bold)
    for (task, score), entries in paper.results().items()
    for model, entry in entries.items()
]


@pytest.mark.parametrize(("task", "score", "model", "printed"), PRINTED)
def test_the_rule_gives_every_cell_of_table_two(task, score, model, printed):
    entries = paper.results()[task, score]
    assert (model in bold(score, {name: entry.summary for name, entry in entries.items()})) == printed


def test_there_are_eighty_entries():
    assert len(PRINTED) == 80


def test_a_best_of_one_seed_stands_alone():
    assert bold("nll", {"a": Summary(0.3, math.nan, 1), "b": Summary(0.31, math.nan, 1)}) == {"a"}


def test_a_diverged_model_is_never_bold():
    assert bold("nll", {"a": Summary(math.nan, math.nan, 3), "b": Summary(9.0, 1.0, 3)}) == {"b"}
    assert bold("nll", {"a": Summary(math.inf, math.nan, 3)}) == set()


def test_exactly_three_standard_deviations_count_in_spite_of_rounding():
    assert bold("error", {"a": Summary(0.1, 0.1, 3), "b": Summary(0.1 + 3 * 0.1, 0.0, 3)}) == {"a", "b"}


def test_a_consistent_advantage_wins_only_when_paired():
    """Seeds vary far more than the models differ: the bold rule cannot tell them apart, pairing can."""
    random = np.random.default_rng(0)
    seeds = random.normal(0.5, 0.1, size=10)
    first = dict(enumerate(seeds))
    second = {seed: value + 0.01 + 0.001 * random.normal() for seed, value in first.items()}
    difference = paired_difference(second, first)
    assert difference.low < 0.01 < difference.high
    assert difference.low > 0
    assert unbeaten("nll", {"a": first, "b": second}) == {"a"}
    assert unbeaten("auroc", {"a": first, "b": second}) == {"b"}
    summaries = {
        name: Summary(float(np.mean(list(values.values()))), 0.1, 10)
        for name, values in (("a", first), ("b", second))
    }
    assert bold("nll", summaries) == {"a", "b"}


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


def test_a_score_nobody_knows_is_refused():
    with pytest.raises(UnknownNameError, match="auroc"):
        bold("aurok", {"a": Summary(0.5, 0.1, 3)})


def test_where_the_best_is_a_single_run_the_others_spread_counts() -> None:
    """An ensemble of all seeds is one run: nothing is known of its spread."""
    alone = Summary(0.10, float("nan"), 1)
    entries = {"ensemble": alone, "near": Summary(0.12, 0.01, 3), "far": Summary(0.14, 0.01, 3)}
    assert bold("nll", entries) == {"ensemble", "near"}


def test_a_better_single_run_makes_no_beaten_model_unbeaten() -> None:
    entries = {"best": Summary(0.907, 0.011, 5), "beaten": Summary(0.864, 0.022, 5)}
    assert bold("auroc", entries) == {"best"}
    alone = {"ensemble": Summary(0.923, float("nan"), 1)}
    assert bold("auroc", entries | alone) == {"ensemble", "best"}


def of_the_paper(task):
    table = paper.results()
    majority = {"majority_error": Summary(paper.MAJORITY_ERROR[task], 0.0, 10)}
    return {
        model: {score: table[task, score][model].summary for score in ("error", "nll", "ece_100", "auroc")}
        | majority
        for model in paper.MODELS
    }


@pytest.mark.parametrize("task", ["fashion", "cifar10", "imdb"])
def test_where_the_paper_has_etp_bold_on_all_three_it_is_named(task):
    assert in_words(of_the_paper(task), paper.ASPECTS).startswith(
        "etp is not beaten on any of model fit (nll)"
    )


def test_where_nobody_wins_all_three_each_aspect_is_named():
    line = in_words(of_the_paper("cifar100"), paper.ASPECTS)
    assert line.startswith("No model is unbeaten on all of")
    assert "model fit: etp; class overlap: edl; domain mismatch: enp." in line


def test_chance_is_never_called_calibrated():
    """ENP on IMDB has the smallest ECE of the table at 50 % error."""
    models = of_the_paper("imdb")
    assert not has_learned(models["enp"])
    assert "enp" not in winners(models, paper.ASPECTS)["class overlap"]
    assert "enp has learned nothing (error 50.0%" in in_words(models, paper.ASPECTS)


def test_two_that_are_equally_good_are_both_named():
    both = {key: Summary(0.2, 0.1, 3) for key in ("nll", "ece", "auroc", "error")}
    both["majority_error"] = Summary(0.5, 0.0, 3)
    assert in_words({"a": both, "b": both}).startswith("a and b are not beaten")


def test_a_model_alone_is_not_called_unbeaten() -> None:
    one = {key: Summary(0.1, 0.0, 2) for key in ("nll", "ece", "auroc", "error")}
    line = in_words({"etp": {**one, "majority_error": Summary(0.9, 0.0, 2)}})
    assert line == "etp is the only model here, so there is nothing to compare it with."


def test_nothing_learned_by_anybody_leaves_no_winner():
    idle = {key: Summary(0.5, 0.1, 3) for key in ("nll", "ece", "auroc", "error", "majority_error")}
    assert "model fit: none" in in_words({"a": idle})


def test_a_stricter_rule_can_take_the_place_of_bold():
    records = [
        {"model": model, "seed": seed, "nll": value, "ece": value, "auroc": -value}
        for model, worse in (("a", 0.0), ("b", 0.1))
        for seed in range(4)
        for value in [seed + worse * (1 + seed / 10)]
    ]
    learned = {"error": Summary(0.1, 0.0, 4), "majority_error": Summary(0.5, 0.0, 4)}
    models = {
        model: {**learned, **{key: Summary(1.5 + shift, 1.3, 4) for key in ("nll", "ece", "auroc")}}
        for model, shift in (("a", 0.0), ("b", 0.1))
    }
    assert in_words(models).startswith("a and b are not beaten")
    strict = in_words(models, rule=lambda score, _: unbeaten(score, by_seed(records, score)))
    assert strict.startswith("a is not beaten")


def test_without_the_majority_class_there_is_no_verdict():
    with pytest.raises(InputError, match="majority_error"):
        in_words({"a": {"error": Summary(0.1, 0.0, 3)}})


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


def test_cells_hold_scores_only_and_the_last_run_of_a_seed():
    entries = aggregate(RECORDS)
    assert set(entries) == {("iris", "paper", "etp"), ("iris", "paper", "bnn")}
    etp = entries["iris", "paper", "etp"]
    assert set(etp) == {"nll"}
    assert (etp["nll"].mean, etp["nll"].n) == (0.625, 2)


def test_by_seed_pairs_the_runs():
    assert by_seed(RECORDS, "nll") == {"etp": {0: 0.5, 1: 0.75}, "bnn": {0: 1.0}}


def test_a_panel_member_is_shown_as_its_score_is():
    assert show("auroc/mnist", Summary(0.9, 0.009, 10)) == "90.0 ± 0.9"


def test_runs_of_other_settings_are_never_averaged_together():
    runs = [
        {**RECORDS[0], "seed": seed, "nll": nll, "settings": settings}
        for seed, nll, settings in [
            (0, 0.2, {}),
            (1, 0.4, {}),
            (0, 9.0, {"weight_kl_scale": 0}),
            (1, 7.0, {"epochs": 1}),
        ]
    ]
    found = {entry: (scores["nll"].mean, scores["nll"].n) for entry, scores in aggregate(runs).items()}
    assert found == {
        ("iris", "paper", "etp"): (pytest.approx(0.3), 2),
        ("iris", "paper", "etp (weight_kl_scale=0)"): (9.0, 1),
        ("iris", "paper", "etp (epochs=1)"): (7.0, 1),
    }
    assert by_seed(runs, "nll")["etp"] == {0: 0.2, 1: 0.4}
    assert aggregate(runs, by=("model",)).keys() == {(model,) for _, _, model in found}


def test_an_infinite_score_is_beaten_by_finite_ones_and_by_no_other_infinite_one() -> None:
    finite, infinite = {0: 0.3, 1: 0.31, 2: 0.29}, dict.fromkeys(range(3), math.inf)
    once = {0: 0.1, 1: math.inf, 2: 0.1}
    assert unbeaten("nll", {"a": finite, "b": infinite, "c": once}) == {"a"}
    assert unbeaten("nll", {"b": infinite, "c": infinite}) == {"b", "c"}
