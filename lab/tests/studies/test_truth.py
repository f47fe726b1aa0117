import json
import math
import re

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import entropy, norm
from typer.testing import CliRunner

from totalcal.models import MODELS
from totalcal_lab.backbones.baselines import BASELINES
from totalcal_lab.cli.app import app
from totalcal_lab.studies.truth import (
    QUICK,
    RARE,
    TASKS,
    Measurement,
    StudyPlan,
    claims,
    distance_to,
    fitted,
    kl_to_truth,
    measure,
    measured,
    points,
    rank_correlation,
    risk_ceiling,
    training_set,
)
from totalcal_lab.studies.truth_report import draw_truth, summaries, to_json, to_text

PLAN = QUICK._replace(seeds=1)
RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def found():
    return measured(PLAN)


def test_every_model_and_baseline_is_measured_on_every_training_set(found):
    assert len(found) == len(PLAN.training_sets) * (len(MODELS) + len(BASELINES))
    assert {row.model for row in found} == {*MODELS, *BASELINES}


def test_the_terms_exist_where_the_model_has_them(found):
    rows = {row.model: row for row in found}
    assert rows["softmax"].reducible == rows["softmax"].irreducible == 0
    assert rows["edl"].reducible == 0 < rows["edl"].irreducible
    assert rows["ensemble"].irreducible == 0 < rows["ensemble"].reducible
    assert rows["etp"].reducible > 0
    assert rows["etp"].irreducible > 0


def test_a_cell_repeats_bit_by_bit(found):
    again = measure(PLAN, *PLAN.training_sets[0])
    assert [repr(row) for row in again] == [repr(row) for row in found[: len(again)]]


def test_training_brings_a_net_near_the_truth():
    data = training_set(TASKS["line"], 400, seed=0)
    task, inputs = TASKS["line"], torch.linspace(-3, 3, 50)[:, None]
    found = fitted(data, 2, steps=150, name="softmax", seed=0).predict(inputs).probabilities
    assert abs(found.numpy() - task.true_probabilities(inputs)).max() < 0.15


def test_the_sweep_shares_its_cells_with_the_table():
    plan = StudyPlan()
    assert len(plan.training_sets) == len(set(plan.training_sets)) == plan.seeds * (3 + len(plan.sweep) - 1)


def made_up(model, examples, reducible, irreducible, far=0.0):
    blank = Measurement(**dict.fromkeys(Measurement._fields, 0.1))
    return blank._replace(
        task="line",
        model=model,
        examples=examples,
        reducible=reducible,
        irreducible=irreducible,
        variance_by_distance=((0.1, 0.2), (5.0, far)) if far else ((0.1, 0.0), (5.0, 0.0)),
    )


def test_claims_are_judged_from_the_smallest_to_the_largest_training_set():
    plan = StudyPlan(tasks=("line",), sweep=(10, 100), sweep_task="line", seeds=1)
    rows = [made_up("good", 10, 0.4, 0.2), made_up("good", 100, 0.1, 0.18, far=0.6)]
    rows += [made_up("bad", 10, 0.1, 0.3), made_up("bad", 100, 0.2, 0.1, far=0.1)]
    rows += [made_up("point", 10, 0.0, 0.0), made_up("point", 100, 0.0, 0.0)]
    good, bad, point = claims(rows, plan)
    assert (good.reducible_ratio, good.distance_ratio) == (pytest.approx(0.25), pytest.approx(3))
    assert (good.reducible_shrinks, good.irreducible_stays, good.variance_grows) == (True, True, True)
    assert (bad.reducible_shrinks, bad.irreducible_stays, bad.variance_grows) == (False, False, False)
    assert (point.reducible_shrinks, point.irreducible_stays, point.variance_grows) == (None, None, None)


def test_the_table_names_everybody_and_the_ceiling(found):
    text = to_text(found, PLAN)
    assert all(len(re.findall(rf"^ *{name} ", text, re.M)) == 2 for name in (*MODELS, *BASELINES))
    assert "f_true itself reaches ρ = 1.000" in text
    assert "positive class" in text


def test_the_json_holds_every_measurement_and_no_nan(found):
    loaded = json.loads(to_json(found, PLAN), parse_constant=pytest.fail)
    assert len(loaded["measurements"]) == len(found)
    assert loaded["plan"]["seeds"] == 1
    assert {claim["model"] for claim in loaded["claims"]} == {*MODELS, *BASELINES}


def test_summaries_are_over_seeds():
    rows = [made_up("a", 800, 0.1, 0.1)._replace(kl=kl, seed=seed) for seed, kl in enumerate((1.0, 3.0))]
    assert summaries(rows, "line", 800)["kl"]["a"][:] == (2.0, pytest.approx(math.sqrt(2)), 2)


def test_the_figure_is_drawn(found, tmp_path):
    draw_truth(found, PLAN, tmp_path / "images" / "truth.png")
    assert (tmp_path / "images" / "truth.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_prints_json(monkeypatch, found):
    monkeypatch.setattr("totalcal_lab.studies.truth.measured", lambda plan, jobs: found)
    done = CliRunner().invoke(app, ["truth", "generated", "--quick", "--seeds", "1", "--json"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.output)["measurements"]) == len(found)


def test_kl_is_scipys_relative_entropy_averaged():
    truth, predicted = RANDOM.dirichlet([1, 1, 1], size=20), RANDOM.dirichlet([1, 1, 1], size=20)
    expected = np.mean([entropy(f, h) for f, h in zip(truth, predicted, strict=True)])
    assert_allclose(kl_to_truth(truth, predicted), expected)
    assert kl_to_truth(truth, truth) == 0


def test_denying_what_can_happen_is_infinitely_far_from_the_truth():
    assert kl_to_truth(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])) == np.inf
    assert kl_to_truth(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])) == pytest.approx(np.log(2))


def test_two_classes_reach_a_ceiling_of_one_and_three_do_not():
    two = RANDOM.dirichlet([1, 1], size=200)
    three = RANDOM.dirichlet([1, 1, 1], size=200)
    assert risk_ceiling(two) == pytest.approx(1)
    assert 0.9 < risk_ceiling(three) < 1


def test_a_constant_ranks_nothing():
    assert np.isnan(rank_correlation(np.zeros(5), np.arange(5.0)))


def test_the_distance_is_to_the_nearest_training_point():
    data, inputs = torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[0.0, 1.0], [3.0, 4.0], [6.0, 8.0]])
    assert_allclose(distance_to(data, inputs), [1.0, 0.0, 5.0])


@pytest.mark.parametrize("name", TASKS)
def test_outside_points_have_less_density_than_nearly_all_inside(name):
    task = TASKS[name]
    where = points(task, 1000)
    in_distribution, ood = task.log_density(where.in_distribution), task.log_density(where.ood)
    assert len(in_distribution) == len(ood) == 1000
    assert np.mean(in_distribution < ood.max()) <= 2 * RARE


@pytest.mark.parametrize("name", TASKS)
def test_the_true_classifier_errs_by_the_bayes_risk(name):
    """An independent sample: labels against the arg max of f_true, within four standard errors."""
    task = TASKS[name]
    sample = task.sample(20_000, seed=7)
    wrong = np.mean(task.true_probabilities(sample.inputs).argmax(axis=1) != sample.labels)
    expected = points(task, 4000).bayes_risk.mean()
    assert wrong == pytest.approx(expected, abs=4 * np.sqrt(0.25 / 4000))


def test_the_risk_of_the_line_is_the_integral_of_the_smaller_density():
    exact, _ = quad(lambda x: min(0.6 * norm.pdf(x, -1), 0.4 * norm.pdf(x, 1)), -12, 12, points=[0.2])
    assert points(TASKS["line"], 20_000).bayes_risk.mean() == pytest.approx(exact, abs=0.005)


def test_training_sets_differ_by_seed_and_repeat():
    first, again, other = (training_set(TASKS["plane"], 10, seed).inputs for seed in (0, 0, 1))
    assert first.equal(again)
    assert not first.equal(other)


def test_tasks_have_one_two_and_ten_dimensions_and_unequal_priors():
    assert [task.dimensions for task in TASKS.values()] == [1, 2, 10]
    assert all(len(set(task.priors)) > 1 for task in TASKS.values())
