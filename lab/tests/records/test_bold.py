"""The paper's rule against its own tables."""

import math

import numpy as np
import pytest

from totalcal.errors import InputError, UnknownNameError
from totalcal.report import Summary, paired_difference, unbeaten
from totalcal_lab.records import paper
from totalcal_lab.records.bold import bold, has_learned, in_words, winners

PRINTED = [
    (task, score, model, entry.bold)
    for (task, score), entries in paper.results().items()
    for model, entry in entries.items()
]

PRINTED_ASPECTS = {"model fit": "nll", "class overlap": "ece_100", "domain mismatch": "auroc"}


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


MAJORITY_ERROR = {"fashion": 0.9, "cifar10": 0.9, "cifar100": 0.99, "imdb": 0.5}


def of_the_paper(task):
    table = paper.results()
    majority = {"majority_error": Summary(MAJORITY_ERROR[task], 0.0, 10)}
    return {
        model: {score: table[task, score][model].summary for score in ("error", "nll", "ece_100", "auroc")}
        | majority
        for model in paper.PRINTED_MODELS
    }


@pytest.mark.parametrize("task", ["fashion", "cifar10", "imdb"])
def test_where_the_paper_has_etp_bold_on_all_three_it_is_named(task):
    assert in_words(of_the_paper(task), PRINTED_ASPECTS).startswith(
        "etp is not beaten on any of model fit (nll)"
    )


def test_where_nobody_wins_all_three_each_aspect_is_named():
    line = in_words(of_the_paper("cifar100"), PRINTED_ASPECTS)
    assert line.startswith("No model is unbeaten on all of")
    assert "model fit: etp; class overlap: edl; domain mismatch: enp." in line


def test_chance_is_never_called_calibrated():
    """ENP on IMDB has the smallest ECE of the table at 50 % error."""
    models = of_the_paper("imdb")
    assert not has_learned(models["enp"])
    assert "enp" not in winners(models, PRINTED_ASPECTS)["class overlap"]
    assert "enp has learned nothing (error 50.0%" in in_words(models, PRINTED_ASPECTS)


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


def test_without_the_majority_class_there_is_no_verdict():
    with pytest.raises(InputError, match="majority_error"):
        in_words({"a": {"error": Summary(0.1, 0.0, 3)}})
