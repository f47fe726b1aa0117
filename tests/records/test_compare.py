import math

import numpy as np
import pytest

from totalcal.errors import InputError, UnknownNameError
from totalcal.records import Summary, bold, paired_bootstrap, paper, unbeaten

CELLS = [
    (task, score, model, cell.bold)
    for (task, score), cells in paper.results().items()
    for model, cell in cells.items()
]


@pytest.mark.parametrize(("task", "score", "model", "printed"), CELLS)
def test_the_rule_gives_every_cell_of_table_two(task, score, model, printed):
    cells = paper.results()[task, score]
    assert (model in bold(score, {name: cell.summary for name, cell in cells.items()})) == printed


def test_there_are_eighty_cells():
    assert len(CELLS) == 80


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
    difference = paired_bootstrap(second, first)
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


def test_the_interval_covers_the_normal_one_for_many_seeds():
    random = np.random.default_rng(2)
    drawn = random.normal(1.0, 1.0, size=400)
    found = paired_bootstrap(dict(enumerate(drawn)), dict.fromkeys(range(400), 0.0))
    half = 1.96 * drawn.std(ddof=1) / np.sqrt(400)
    assert found.mean == pytest.approx(drawn.mean())
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.05)


def test_too_few_common_seeds_are_refused():
    with pytest.raises(InputError, match="two seeds"):
        paired_bootstrap({0: 1.0, 1: 2.0}, {1: 1.0, 2: 2.0})


def test_a_score_nobody_knows_is_refused():
    with pytest.raises(UnknownNameError, match="auroc"):
        bold("aurok", {"a": Summary(0.5, 0.1, 3)})


def test_where_the_best_is_a_single_run_the_others_spread_counts() -> None:
    """An ensemble of all seeds is one run: nothing is known of its spread."""
    alone = Summary(0.10, float("nan"), 1)
    cells = {"ensemble": alone, "near": Summary(0.12, 0.01, 3), "far": Summary(0.14, 0.01, 3)}
    assert bold("nll", cells) == {"ensemble", "near"}
