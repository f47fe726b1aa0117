"""Every finished run remembers its domain and is judged on OOD sets; a stopped benchmark goes on."""

import pytest

from totalcal.errors import InputError
from totalcal_lab.grid.domain import domain_jobs
from totalcal_lab.grid.grid import Grid, grid_jobs
from totalcal_lab.records.domain import TABLES, domain_records
from totalcal_lab.records.formats import as_markdown


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two models of digits after two epochs, judged."""
    root = tmp_path_factory.mktemp("runs")
    grid = Grid("digits", "laptop", {"epochs": 2})
    jobs = grid_jobs(grid.configurations(["softmax", "etp", "temperature"], 1, 0), root, None)
    jobs.run("sequential")
    domain = domain_jobs(jobs.folders(), corruptions=["fog"])
    domain.run("sequential")
    assert domain.are_done
    return root, jobs


def test_every_ood_set_is_ranked_by_familiarity_and_by_every_baseline(runs):
    lines = domain_records(runs[0])
    panel = [line for line in lines if "nearness" in line]
    assert {line["model"] for line in lines} == {"softmax", "etp"}  # temperature has no memory of its own
    assert {line["ood"] for line in panel} >= {"letters", "uniform-noise", "upside-down"}
    for score in ("unfamiliarity", "entropy", "energy", "knn", "vim"):
        assert all(0 <= line[f"auroc_by_{score}"] <= 1 for line in panel)
    noise = [line for line in panel if line["ood"] == "uniform-noise"]
    assert all(line["auroc_by_unfamiliarity"] > 0.99 for line in noise)


def test_false_alarms_on_the_test_set_are_few(runs):
    own = [line for line in domain_records(runs[0]) if line["ood"] == "none"]
    assert len(own) == 2
    assert all(0 <= line["false_alarms/0.05"] <= 0.3 for line in own)


def test_tables_show_a_group_per_model_and_the_worst_set_first(runs):
    lines = domain_records(runs[0])
    panel = TABLES["panel"](lines)
    assert panel.columns[1] == "worst"
    assert len(panel.groups) == 2
    for row in panel.rows:
        assert row[1].sort == min(cell.sort for cell in row[1:])
    assert "|familiarity|" in as_markdown(panel)
    assert [row[0].text for row in TABLES["severity"](lines).groups[0].rows] == ["1", "2", "3", "4", "5"]


def test_a_second_run_adds_nothing(runs):
    root, jobs = runs
    before = domain_records(root)
    again = domain_jobs(jobs.folders(), corruptions=["fog"])
    again.run("sequential")
    assert domain_records(root) == before


def test_classes_left_out_of_training_are_a_near_ood_set(tmp_path):
    grid = Grid("digits", "laptop", {"epochs": 1, "left_out": ["3", "7"]})
    jobs = grid_jobs(grid.configurations(["softmax"], 1, 0), tmp_path, None)
    jobs.run("sequential")
    domain_jobs(jobs.folders(), corruptions=[]).run("sequential")
    left_out = [line for line in domain_records(tmp_path) if line["ood"] == "left-out"]
    assert [line["nearness"] for line in left_out] == ["near"]
    assert left_out[0]["settings"]["left_out"] == ["3", "7"]


def test_without_a_finished_run_there_is_nothing_to_remember(tmp_path):
    with pytest.raises(InputError, match="no run has finished"):
        domain_jobs([])
    with pytest.raises(InputError, match="--domain"):
        domain_records(tmp_path)


def test_a_line_that_was_lost_is_made_again(runs):
    run = runs[1].folders()[0]
    before = run.domain_file.read_bytes()
    run.domain_file.write_bytes(b"".join(before.splitlines(keepends=True)[:-1]))
    domain_jobs([run], corruptions=["fog"]).run("sequential")
    assert run.domain_file.read_bytes() == before
