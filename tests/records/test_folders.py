"""The folder of a run, from planned to done."""

import multiprocessing

import pytest

from totalcal.errors import InputError
from totalcal.records.folders import RunFolder, State, finished_records, run_folders
from totalcal.records.store import append

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
    with pytest.raises(InputError, match="totalcal status"):
        finished_records(tmp_path)
    folder.finish()
    assert finished_records(tmp_path) == [RECORD]


def test_a_folder_that_is_not_there_is_an_error_with_advice(tmp_path):
    with pytest.raises(InputError, match="totalcal run"):
        list(run_folders(tmp_path / "nowhere"))
