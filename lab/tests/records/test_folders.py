"""The folder of a run, from planned to done."""

import json
import multiprocessing

import pytest

from totalcal.errors import InputError
from totalcal_lab.records.folders import RunFolder, State, damage_in_words, finished_records, run_folders
from totalcal_lab.records.store import append

RECORD = {"task": "digits", "preset": "laptop", "model": "etp", "seed": 0, "epochs": 1, "error": 0.1}


@pytest.fixture
def folder(tmp_path):
    run = RunFolder(tmp_path / "abc")
    run.plan({"task": "digits"})
    return run


def test_a_run_passes_from_waiting_to_done(folder):
    assert folder.state is State.WAITING
    with folder.lock():
        folder.start()
        assert folder.state is State.RUNNING
    assert folder.state is State.STOPPED
    folder.fail(ValueError("no"))
    assert folder.state is State.FAILED
    folder.finish()
    assert folder.state is State.DONE
    assert not folder.failures_file.exists()


def test_a_failure_keeps_its_traceback(folder):
    try:
        raise ValueError("first line\nsecond line")
    except ValueError as error:
        folder.fail(error)
    (failure,) = folder.failures
    assert failure["error"] == "ValueError: first line"
    assert "test_folders.py" in failure["traceback"]
    assert "second line" in failure["traceback"]


def test_a_run_is_settled_by_its_second_failure_and_open_again_when_asked_for(folder):
    folder.fail(ValueError("one"))
    assert not folder.is_settled
    folder.fail(ValueError("two"))
    assert folder.is_settled
    folder.ask()
    assert not folder.is_settled


def test_a_death_is_a_start_without_an_end(folder):
    folder.start()
    folder.timing.note("epoch", epoch=0, seconds=1.5)
    folder.start()
    assert folder.timing.deaths == 2
    folder.fail(ValueError("an end"))
    assert folder.timing.deaths == 0
    folder.start()
    folder.ask()
    assert folder.timing.deaths == 0
    assert folder.timing.starts == 3
    assert folder.timing.seconds_by_epoch == [1.5]


def test_the_lock_of_a_killed_process_is_free_again(folder):
    context = multiprocessing.get_context("fork")
    held = context.Event()
    worker = context.Process(target=_hold, args=(folder, held))
    worker.start()
    assert held.wait(10)
    assert folder.state is State.RUNNING
    worker.kill()
    worker.join()
    assert folder.state is State.WAITING


def _hold(folder, held):
    with folder.lock():
        held.set()
        multiprocessing.Event().wait()


def test_planning_again_changes_nothing(folder):
    folder.plan({"task": "something else"})
    assert folder.config == {"task": "digits"}


def test_only_finished_runs_give_records(tmp_path, folder):
    append(folder.records_file, RECORD)
    with pytest.raises(InputError, match="totalcal-lab status"):
        finished_records(tmp_path)
    folder.finish()
    assert finished_records(tmp_path) == [RECORD]


def test_a_run_whose_files_vanish_before_its_marker_is_made_again(tmp_path):
    run = RunFolder(tmp_path / "abc")
    run.plan(RECORD)
    run.start()
    for file in run.path.iterdir():
        file.unlink()
    with pytest.raises(InputError, match=r"config\.json is missing"):
        run.finish()
    run.configure(RECORD)
    with pytest.raises(InputError, match=r"records\.jsonl is missing"):
        run.finish()
    assert not run.is_done
    run.done_file.write_text(json.dumps({"sha256": {}}))  # as one was left that vouches for nothing
    assert not run.is_done
    append(run.records_file, RECORD)
    run.finish()
    assert run.is_done


def test_a_folder_that_is_not_there_is_an_error_with_advice(tmp_path):
    with pytest.raises(InputError, match="totalcal-lab run"):
        list(run_folders(tmp_path / "nowhere"))


@pytest.fixture
def finished(folder):
    folder.start()
    append(folder.records_file, RECORD)
    folder.history_file.write_text('{"epoch": 0}\n')
    folder.checkpoints.mkdir()
    (folder.checkpoints / "a.ckpt").write_bytes(b"net")
    folder.finish()
    assert folder.is_done
    return folder


@pytest.mark.parametrize("name", ["records.jsonl", "history.jsonl", "config.json"])
@pytest.mark.parametrize("how", ["deleted", "torn", "changed"])
def test_a_finished_run_whose_files_are_not_what_it_wrote_is_damaged_and_named(finished, name, how):
    file = finished.path / name
    content = file.read_bytes()
    changed = bytes([content[0], content[1] ^ 1, *content[2:]])
    file.unlink() if how == "deleted" else file.write_bytes(content[:-3] if how == "torn" else changed)
    assert not finished.is_done
    assert not finished.is_settled
    assert name in " ".join(finished.damage)
    assert finished.state is State.DAMAGED


def test_damage_is_left_out_of_the_tables_said_and_made_again(tmp_path, finished):
    finished.records_file.write_text('{"task": "digits", "error": 0.0}\n')
    (line,) = damage_in_words(tmp_path)
    assert "abc is left out: records.jsonl is not what the run wrote." in line
    assert "totalcal-lab run" in line
    with pytest.raises(InputError, match="totalcal-lab status"):
        finished_records(tmp_path)
    finished.plan({"task": "digits"})
    finished.ask()
    finished.records_file.unlink()
    append(finished.records_file, RECORD)
    finished.finish()
    assert damage_in_words(tmp_path) == []
    assert finished_records(tmp_path) == [RECORD]


def test_a_net_may_be_deleted_but_not_changed(finished):
    (net,) = finished.checkpoints.iterdir()
    assert finished.damaged_nets == []
    net.write_bytes(b"another")
    assert finished.is_done
    assert finished.damaged_nets == ["a.ckpt is not what the run wrote."]
    net.unlink()
    assert finished.damaged_nets == []


@pytest.mark.parametrize("marker", ["{", "[]", '{"sha256": 1}', "[" * 100_000])
def test_a_damaged_marker_vouches_for_nothing(finished, marker):
    finished.done_file.write_text(marker)
    assert finished.damage == ["done is damaged."]


def test_a_marker_may_name_what_no_file_can_be_called(finished):
    name = "r" * 1000
    finished.done_file.write_text(json.dumps({"sha256": {name: "0"}}))
    assert f"{name} is missing." in finished.damage


@pytest.mark.parametrize("name", ["config.json", "timing.jsonl", "failed.jsonl", "corruptions.jsonl"])
@pytest.mark.parametrize("content", [b"\xff\xfe", b"[1]", b'{"event" 1}\n{}\n', b"[" * 100_000])
def test_a_damaged_file_stops_no_grid_it_is_set_aside_and_named(folder, name, content):
    folder.start()
    (folder.path / name).write_bytes(content)
    assert folder.timing.starts in (0, 1)  # damage says nothing, and raises nothing
    assert folder.failures == []
    folder.plan({"task": "digits"})
    assert folder.config == {"task": "digits"}
    assert folder.set_aside == [f"{name}.damaged"]
    folder.ask()
    folder.start()
    assert folder.timing.starts >= 1


@pytest.mark.parametrize(
    "event",
    [
        {"event": "finished", "time": 1.0, "nets": 6},
        {"event": "finished", "time": 1.0, "nets": {"checkpoints/last.pt": 6}},
        {"event": "started", "time": "now"},
        {"event": ["started"], "time": 1.0},
        {"event": "epoch", "time": 1.0, "epoch": "first", "seconds": 1.0},
        {"event": "epoch", "time": 1.0, "epoch": 1, "seconds": None},
        {"event": "trained", "time": 1.0, "seconds": 3},
    ],
)
def test_an_event_of_another_kind_than_was_written_is_damage(folder, event):
    folder.timing.file.write_text(json.dumps(event) + "\n")
    folder.done_file.write_text("")
    assert folder.timing.events == []
    assert (folder.timing.epochs_done, folder.timing.seconds_by_epoch, folder.damaged_nets) == (0, [], [])
    folder.plan({"task": "digits"})
    assert folder.set_aside == ["timing.jsonl.damaged"]


def test_a_configuration_that_cannot_be_read_says_what_to_do(folder):
    folder.config_file.write_text("{")
    with pytest.raises(InputError, match=r"config\.json.*totalcal-lab run"):
        _ = folder.config
