"""Table 2 out of records."""

import json
import math

import pytest

from totalcal.report.table import as_text
from totalcal_lab.records.formats import as_latex, as_markdown
from totalcal_lab.records.results import result_columns, result_lines, result_table


def _record(model, seed, task="fashion", settings=None, **scores):
    known = {
        "error": 0.08,
        "ece": 0.02,
        "ece_100": 0.03,
        "nll": 0.3,
        "auroc": 0.9,
        "majority_error": 0.9,
        "prediction": "ten draws",
    }
    return {
        "task": task,
        "preset": "laptop",
        "model": model,
        "seed": seed,
        "epochs": 5,
        **known,
        "auroc/mnist": 0.9,
        "settings": settings or {},
        **scores,
    }


@pytest.fixture
def columns():
    """Two models, two seeds: ETP is better in error by more than three standard deviations."""
    errors = {("etp", 0): 0.070, ("etp", 1): 0.072, ("bnn", 0): 0.090, ("bnn", 1): 0.092}
    return result_columns(_record(model, seed, error=error) for (model, seed), error in errors.items())


def test_mean_standard_deviation_and_bold_are_those_of_the_seeds(columns):
    (line,) = [row for row in result_lines(columns) if (row["model"], row["score"]) == ("etp", "error")]
    assert line["mean"] == pytest.approx(0.071)
    assert line["std"] == pytest.approx(0.001 * math.sqrt(2))
    assert (line["seeds"], line["bold"]) == (2, True)
    (line,) = [row for row in result_lines(columns) if (row["model"], row["score"]) == ("bnn", "error")]
    assert not line["bold"]


def test_the_papers_figures_stand_beside_ours_at_its_own_number_of_bins(columns):
    found = {(row["score"], row["model"]): row["paper_mean"] for row in result_lines(columns)}
    assert found["error", "etp"] == pytest.approx(0.079)
    assert found["ece_100", "etp"] == pytest.approx(0.026)
    assert found["ece", "etp"] is None


def test_markdown_marks_the_best(columns):
    lines = as_markdown(result_table(columns)).splitlines()
    assert "|etp|**7.1 ± 0.1**|**7.9 ± 0.2**|" in lines
    assert "|bnn|9.1 ± 0.1|**7.9 ± 0.1**|" in lines


def test_latex_marks_the_best(columns):
    lines = as_latex(result_table(columns)).splitlines()
    assert r"etp & $\mathbf{7.1 \pm 0.1}$ & $\mathbf{7.9 \pm 0.2}$ \\" in lines


def test_text_marks_the_best_with_a_star(columns):
    (row, *_) = [line for line in as_text(result_table(columns)).splitlines() if line.startswith(" etp")]
    assert row.split() == ["etp", "7.1", "±", "0.1", "*", "7.9", "±", "0.2", "*"]


def test_settings_that_all_runs_share_name_the_column_and_others_the_row():
    (column,) = result_columns(
        [
            _record("etp", 0, settings={"epochs": 5, "weight_kl_scale": 0}),
            _record("etp", 0, settings={"epochs": 5}),
        ]
    )
    assert column.title == "fashion (laptop, epochs=5)"
    assert column.labels == ["etp", "etp (weight_kl_scale=0)"]


def test_one_seed_has_no_standard_deviation_and_is_still_json():
    lines = result_lines(result_columns([_record("etp", 0)]))
    assert json.loads(json.dumps(lines, allow_nan=False))[0]["std"] is None


def test_a_task_without_ood_sets_is_judged_on_what_it_has():
    records = [_record(model, 0, task="iris") for model in ("etp", "softmax")]
    without = [{key: value for key, value in each.items() if "auroc" not in key} for each in records]
    (column,) = result_columns(without)
    assert "etp and softmax are not beaten on any of model fit (nll), class overlap (ece)." in column.words
    assert "OOD" not in as_markdown(result_table([column]))


def test_the_worst_of_a_panel_is_shown_where_there_is_a_panel():
    (column,) = result_columns([_record("etp", 0, **{"auroc/kmnist": 0.8, "auroc_worst": 0.8})])
    assert column.figures["auroc_worst"]["etp"].summary.mean == 0.8
    assert column.ood == "mnist"
