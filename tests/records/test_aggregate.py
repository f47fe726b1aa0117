import math
import statistics

import pytest

from totalcal.errors import InputError
from totalcal.records import Summary, aggregate, by_seed, show, summarise

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
            (0, 9.0, {"weight_kl": 0}),
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
