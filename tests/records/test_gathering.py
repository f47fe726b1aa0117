"""Records of run folders in one file."""

import pytest

from totalcal.errors import InputError
from totalcal.records.progress import corruptions_file, gather, timing_file
from totalcal.records.store import read_lines


def test_finished_runs_are_gathered_seed_by_seed_and_unfinished_ones_are_not(tmp_path, finish_run):
    runs, target = tmp_path / "runs", tmp_path / "records" / "fashion.jsonl"
    for model, seed in (("etp", 0), ("etp", 1), ("softmax", 0), ("softmax", 1)):
        finish_run(runs, model=model, seed=seed)
    finish_run(runs, model="bnn", done=False)
    assert gather(runs, target).records == 4
    entries = [(line["seed"], line["model"]) for line in read_lines(target)]
    assert entries == [(0, "softmax"), (0, "etp"), (1, "softmax"), (1, "etp")]


def test_what_came_from_elsewhere_stays_and_what_ran_again_is_replaced(tmp_path, finish_run):
    target = tmp_path / "all.jsonl"
    finish_run(tmp_path / "here", seed=0, error=0.1)
    finish_run(tmp_path / "there", seed=1, error=0.2)
    gather(tmp_path / "here", target)
    gather(tmp_path / "there", target)
    finish_run(tmp_path / "again", seed=0, error=0.3)
    gather(tmp_path / "again", target)
    assert [line["error"] for line in read_lines(target)] == [0.3, 0.2]


def test_a_gathering_twice_changes_nothing(tmp_path, finish_run):
    finish_run(tmp_path / "runs", corruptions=2)
    target = tmp_path / "fashion.jsonl"
    gather(tmp_path / "runs", target)
    before = {file.name: file.read_bytes() for file in tmp_path.glob("*.jsonl")}
    gather(tmp_path / "runs", target)
    assert {file.name: file.read_bytes() for file in tmp_path.glob("*.jsonl")} == before


def test_times_and_corruptions_stand_beside_the_records(tmp_path, finish_run):
    finish_run(tmp_path / "runs", corruptions=3)
    target = tmp_path / "fashion.jsonl"
    assert gather(tmp_path / "runs", target) == (1, 3, 0)
    assert read_lines(timing_file(target))[0]["seconds"] == 30.0
    assert [line["error"] for line in read_lines(corruptions_file(target))] == [0.333333] * 3
    assert "seconds" not in read_lines(target)[0]


def test_a_name_that_is_no_file_of_records_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.jsonl"):
        gather(tmp_path, tmp_path / "README.md")
