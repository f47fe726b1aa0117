import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from totalcal.studies.truth import RARE, TASKS, points, training_set


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
