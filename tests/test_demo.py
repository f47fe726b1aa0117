from totalcal.demo import CALIBRATED, ENSEMBLES, demo_page, demo_table, run_demo, verdict
from totalcal.report import as_text


def records(seeds, **nll):
    """Methods with the same spread over seeds, as far apart as their NLL."""
    for seed in range(seeds):
        for name, value in nll.items():
            scores = {"error": 0.1, "nll": value * (1 + 0.01 * seed**2), "ece": 0.02, "auroc": 0.9}
            run = {"task": "digits", "preset": "demo", "model": name, "seed": seed, "majority_error": 0.9}
            yield run | scores | {"auroc/entropy": 0.9}


def test_a_method_that_is_worse_for_every_seed_is_beaten():
    said = verdict(list(records(5, good=0.1, bad=0.5)))
    assert "good" in said
    assert "bad" not in said


def test_an_ensemble_is_no_single_net():
    rows = list(records(5, single=0.2)) + list(records(5, **{ENSEMBLES[0]: 0.1}))
    single, every = verdict(rows).split("Of all")
    assert "single" in single
    assert ENSEMBLES[0] not in single
    assert ENSEMBLES[0] in every


def test_what_an_ensemble_wins_stands_beside_its_cost():
    rows = list(records(5, **{CALIBRATED: 0.2, ENSEMBLES[1]: 0.1}))
    price = verdict(rows).partition("5 times the cost")[2]
    assert "NLL 0.106 against 0.212 (lower)" in price
    assert "ECE (15 bins) 2.0 % against 2.0 % (no difference found)" in price


def test_the_table_has_means_and_deviations_over_seeds():
    shown = as_text(demo_table(list(records(5, single=0.1))))
    assert "0.106 ± 0.007" in shown  # 0.1, 0.101, 0.104, 0.109, 0.116
    assert "90.0 ± 0.0" in shown


def test_one_seed_never_wins():
    assert "one seed cannot tell" in verdict(list(records(1, good=0.1, bad=0.9)))


def test_a_small_demo_runs_and_familiarity_is_in_it():
    found = run_demo(1, 2, lambda run: None)
    scores = {run["model"]: run for run in found}
    assert len(scores) == 9
    assert scores["calibrated softmax"]["auroc"] > scores["softmax"]["auroc"] + 0.05
    words, page, _ = demo_page(found)
    assert words in page
