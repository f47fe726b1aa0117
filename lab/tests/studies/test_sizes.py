"""The posterior against repeated sampling, and the study on a task of seconds."""

import json
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from totalcal.models import MODELS
from totalcal.nets import mlp
from totalcal_lab.cli.app import app
from totalcal_lab.data.synthetic import GaussianTask
from totalcal_lab.records.sizes import draw_sizes, sizes_table, slope
from totalcal_lab.studies import sizes
from totalcal_lab.studies.sizes import POSTERIOR, Sweep, logistic_posterior, measure_sizes, terms_of_draws

TASK = GaussianTask.isotropic([[-1.0], [1.0]], scales=[1.0, 0.7])
AT = np.array([[-1.0], [0.0], [0.6]])
SMALL = Sweep((20, 80), 3, 1e-2, partial(mlp, 2, 3, (4,)))


def test_the_posterior_varies_as_the_fit_does_over_training_sets():
    """Bernstein and von Mises: for many rows the posterior's spread is that of repeated sampling."""
    rows = 1_000
    fits = []
    for seed in range(200):
        inputs, labels = TASK.sample(rows, seed)
        features = np.column_stack([inputs, inputs**2])
        plain = LogisticRegression(C=1e6, max_iter=500).fit(features, labels)
        fits.append(plain.predict_proba(np.column_stack([AT, AT**2]))[:, 1])
    inputs, labels = TASK.sample(rows, 1_000)
    drawn = logistic_posterior(inputs, labels, AT, draws=4_000)[..., 1]
    assert_allclose(drawn.std(0), np.std(fits, axis=0), rtol=0.35)
    assert_allclose(drawn.mean(0), TASK.true_probabilities(AT)[:, 1], atol=4 * drawn.std(0).max())


def test_the_posteriors_reducible_term_falls_as_one_over_the_rows():
    terms = []
    for rows in (500, 5_000, 50_000):
        inputs, labels = TASK.sample(rows, seed=3)
        terms.append(terms_of_draws(logistic_posterior(inputs, labels, AT, draws=2_000))["reducible"])
    assert slope([500, 5_000, 50_000], terms) == pytest.approx(-1, abs=0.15)


def test_few_rows_that_are_told_apart_exactly_still_have_a_posterior():
    found = logistic_posterior(np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([0, 0, 1, 1]), AT)
    assert np.isfinite(found).all()
    assert_allclose(found.sum(-1), 1)


def test_terms_of_draws_are_those_of_the_law_of_total_variance():
    drawn = np.random.default_rng(0).dirichlet([1, 2, 3], size=(20_000, 1))
    terms, mean = terms_of_draws(drawn), drawn.mean((0, 1))
    assert terms["reducible"] + terms["data"] == pytest.approx((mean * (1 - mean)).sum(), rel=1e-3)
    assert terms["reducible"] == pytest.approx((mean * (1 - mean)).sum() / 7, rel=0.03)  # α₀ + 1


@pytest.fixture(scope="module")
def lines():
    return list(measure_sizes("plane", 0, sweep=SMALL))


def test_every_model_and_the_posterior_have_a_line_per_size(lines):
    found = [(line["examples"], line["model"]) for line in lines]
    assert found == [(size, model) for size in SMALL.sizes for model in (*MODELS, POSTERIOR)]
    terms = {line["model"]: line for line in lines}
    assert terms["softmax"]["reducible"] == terms[POSTERIOR]["irreducible"] == 0 < terms["edl"]["irreducible"]


def test_lines_that_are_there_are_not_made_again(lines):
    done = [(line["examples"], line["model"]) for line in lines if line["model"] != "edl"]
    again = list(measure_sizes("plane", 0, done, sweep=SMALL))
    assert again == [line for line in lines if line["model"] == "edl"]


def test_the_table_has_both_ends_and_the_slope(lines, tmp_path):
    made = [{**lines[0], "model": "etp", "examples": n, "reducible": 5 / n} for n in (50, 500)]
    (group,) = sizes_table(made).groups
    assert [entry.text for entry in group.rows[0]][:2] == ["etp", "0.1 → 0.01 (−1.00)"]
    draw_sizes(lines, tmp_path / "sizes.png")
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_goes_on_where_it_was_stopped(monkeypatch, tmp_path):
    monkeypatch.setitem(sizes.SWEEPS, "plane", SMALL._replace(sizes=(20,)))
    out = tmp_path / "sizes.jsonl"
    for _ in range(2):
        done = CliRunner().invoke(app, ["truth", "sizes", "plane", "--records", str(out)])
        assert done.exit_code == 0, done.output
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == len(MODELS) + 1


def test_a_task_that_is_not_there_is_refused():
    assert CliRunner().invoke(app, ["truth", "sizes", "planes"]).exit_code != 0
