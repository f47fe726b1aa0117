"""Progress and cost, from folders alone, and the records of run folders in one file."""

import pytest

from totalcal.errors import InputError
from totalcal_lab.records.folders import RunFolder, State
from totalcal_lab.records.progress import (
    corruptions_file,
    costs,
    gather,
    grid_progress,
    progress_view,
)
from totalcal_lab.records.store import read_lines


@pytest.fixture
def planned(tmp_path):
    def make(model, seed=0, seconds=(), epochs=4):
        folder = RunFolder(tmp_path / f"{model}{seed}")
        folder.plan({"task": "digits", "preset": "laptop", "model": model, "seed": seed, "epochs": epochs})
        for epoch, time in enumerate(seconds):
            folder.timing.note("epoch", epoch=epoch, seconds=time)
        return folder

    return make


def test_time_left_is_what_is_left_at_the_pace_so_far(planned):
    begun, waiting = planned("etp", 0, seconds=[2.0, 2.0]), planned("etp", 1)
    progress = grid_progress([begun, waiting])
    assert progress.seconds_left == pytest.approx(2 * 2.0 + 4 * 2.0)
    with begun.lock(), waiting.lock():
        assert grid_progress([begun, waiting]).seconds_left == pytest.approx(6.0)  # two at a time


def test_nothing_is_foretold_before_anything_is_known(planned):
    assert grid_progress([planned("etp")]).seconds_left is None


def test_a_failure_is_shown_with_its_reason(planned):
    from rich.console import Console

    folder = planned("etp")
    folder.fail(ValueError("no [memory] left"))
    progress = grid_progress([folder])
    assert progress.counts[State.FAILED] == 1
    console = Console(width=120, record=True, quiet=False)
    console.print(progress_view(progress))
    shown = console.export_text()
    assert "no [memory] left" in shown
    assert "0 of 1 done, 1 failed" in shown


def test_cost_is_relative_to_the_plain_net(planned):
    folders = [planned("softmax", seconds=[1.0, 1.0, 9.0]), planned("etp", seconds=[1.5, 1.5])]
    table = costs(folders)["digits", "laptop"]
    assert table["etp"].ratio == pytest.approx(1.5)  # medians: one slow epoch does not count
    assert table["softmax"].ratio == 1


def test_a_run_that_trains_nothing_has_no_cost(planned):
    assert costs([planned("ensemble")]) == {("digits", "laptop"): {}}


def test_names_can_neither_crash_nor_colour_the_terminal_and_damage_is_named(planned):
    from rich.console import Console

    hostile = planned("[/red][bold]\x1b[31metp")
    broken = planned("etp", 1)
    broken.config_file.write_text("{")
    hostile.fail(ValueError("[/] \x1b[2J"))
    console = Console(width=300, record=True)
    console.print(progress_view(grid_progress([hostile, broken])))
    shown = console.export_text()
    assert "\x1b" not in shown
    assert "[/red][bold]\\x1b[31metp" in shown
    assert "etp1" in shown
    assert "1 damaged" in shown


@pytest.mark.parametrize("wrong", [{"model": None}, {"task": 3}, {"seed": "0"}, {"epochs": [1]}])
def test_a_configuration_that_names_no_run_is_damage_in_words(planned, wrong):
    folder = planned("etp")
    folder.configure(folder.config | wrong)
    (found,) = grid_progress([folder]).runs
    assert found.state is State.DAMAGED


def test_a_finished_run_is_done_though_its_net_is_damaged_and_that_is_said(planned):
    from rich.console import Console

    folder = planned("etp")
    folder.checkpoints.mkdir()
    (folder.checkpoints / "last.pt").write_bytes(b"weights")
    folder.records_file.write_text("{}\n")
    folder.finish()
    assert grid_progress([folder]).runs[0].damaged_nets == []
    (folder.checkpoints / "last.pt").write_bytes(b"weighty")
    console = Console(width=120, record=True)
    console.print(progress_view(grid_progress([folder])))
    shown = console.export_text()
    assert "1 of 1 done" in shown
    assert "etp0: last.pt is not what the run wrote" in shown


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


def test_corruptions_stand_beside_the_records(tmp_path, finish_run):
    finish_run(tmp_path / "runs", corruptions=3)
    target = tmp_path / "fashion.jsonl"
    assert gather(tmp_path / "runs", target) == (1, 3, 0)
    assert [line["error"] for line in read_lines(corruptions_file(target))] == [0.333333] * 3


def test_a_name_that_is_no_file_of_records_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.jsonl"):
        gather(tmp_path, tmp_path / "README.md")
