import pytest

from totalcal.errors import InputError
from totalcal.records import Summary, by_seed, has_learned, in_words, paper, unbeaten, winners


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
