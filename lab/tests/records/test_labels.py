"""Rows of a table: runs of one model and its settings, over seeds."""

import pytest

from totalcal.report import by_seed
from totalcal_lab.records.labels import aggregate, with_row_labels

RECORDS = [
    {"task": "iris", "preset": "paper", "model": model, "seed": seed, "epochs": 9, "nll": value, "wall": 3.0}
    for model, seed, value in [("etp", 0, 0.5), ("etp", 1, 0.25), ("bnn", 0, 1.0), ("etp", 1, 0.75)]
]


def test_cells_hold_scores_only_and_the_last_run_of_a_seed():
    entries = aggregate(RECORDS)
    assert set(entries) == {("iris", "paper", "etp"), ("iris", "paper", "bnn")}
    etp = entries["iris", "paper", "etp"]
    assert set(etp) == {"nll"}
    assert (etp["nll"].mean, etp["nll"].n) == (0.625, 2)


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
    assert by_seed(with_row_labels(runs), "nll")["etp"] == {0: 0.2, 1: 0.4}
    assert aggregate(runs, by=("model",)).keys() == {(model,) for _, _, model in found}
