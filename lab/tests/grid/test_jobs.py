"""Jobs and rounds of them.

One try at a run; and whatever happens to workers, every job ends done or given up, and nobody is blamed for
another's death.
"""

import errno
import shutil
from collections import namedtuple

import pytest

from totalcal.errors import UnknownNameError
from totalcal_lab.grid.jobs import StorageError, attempt, engine_named, run_rounds
from totalcal_lab.records.folders import RunFolder, State


@pytest.fixture
def folders(tmp_path):
    runs = [RunFolder(tmp_path / name) for name in ("need", "run")]
    for run in runs:
        run.plan({})
    return runs


def test_work_waits_for_what_it_needs(folders):
    need, run = folders
    attempt(run, lambda _: None, [need])
    assert run.state is State.WAITING
    need.finish()
    attempt(run, lambda _: None, [need])
    assert run.state is State.DONE


def test_work_fails_when_its_need_was_given_up(folders):
    need, run = folders
    need.give_up(ValueError("no"))
    attempt(run, lambda _: None, [need])
    assert run.failures[0]["error"].startswith("NeedFailedError")


def test_work_that_is_done_is_not_done_again(folders):
    _, run = folders
    attempt(run, lambda _: None)
    attempt(run, pytest.fail)
    assert run.timing.starts == 1


def test_an_interrupt_is_no_failure(folders):
    _, run = folders

    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(run, interrupted)
    assert run.state is State.STOPPED


def _run(jobs, engine="loky", workers=2):
    with engine_named(engine, workers) as submit:
        run_rounds(jobs, submit)
    return [job.folder.state for job in jobs]


def test_one_that_raises_stops_no_other_and_is_tried_twice(stand_in):
    jobs = [stand_in("a"), stand_in("b", "raises"), stand_in("c")]
    assert _run(jobs, "sequential") == [State.DONE, State.FAILED, State.DONE]
    assert [failure["error"] for failure in jobs[1].folder.failures] == ["ValueError: as it must"] * 2


def test_one_worker_is_enough(stand_in):
    assert _run([stand_in("a"), stand_in("b")], workers=1) == [State.DONE] * 2


def test_a_killed_worker_costs_a_fresh_pool_and_nothing_else(stand_in):
    jobs = [stand_in("a"), stand_in("b", "kills once"), stand_in("c"), stand_in("d")]
    assert _run(jobs) == [State.DONE] * 4
    assert jobs[1].folder.timing.starts == 2


def test_one_that_always_kills_its_worker_is_given_up_alone(stand_in):
    jobs = [stand_in("a"), stand_in("b", "kills"), stand_in("c"), stand_in("d")]
    assert _run(jobs) == [State.DONE, State.FAILED, State.DONE, State.DONE]
    assert jobs[1].folder.failures[0]["error"].startswith("WorkerDiedError")


def test_dask_outlives_a_killed_worker(stand_in):
    pytest.importorskip("distributed")
    jobs = [stand_in("a"), stand_in("b", "kills once"), stand_in("c")]
    assert _run(jobs, "dask") == [State.DONE] * 3


def test_a_run_that_another_process_holds_is_waited_for(stand_in):
    job = stand_in("a")
    submitted = []

    def submit(jobs):
        submitted.append(len(jobs))
        if len(submitted) == 1:
            with job.folder.lock():  # as if another process were at it
                jobs[0]()
        else:
            jobs[0]()

    run_rounds([job], submit)
    assert submitted == [1, 1]
    assert job.folder.is_done


def test_a_worker_that_dies_before_it_began_does_not_end_the_grid(stand_in):
    job, submitted = stand_in("a"), []

    def submit(jobs):
        submitted.append(len(jobs))
        if len(submitted) < 3:
            raise ConnectionError("the worker died on its way up")
        jobs[0]()

    run_rounds([job], submit)
    assert job.folder.is_done


def test_an_engine_that_cannot_begin_is_an_error(stand_in):
    submitted = []

    def broken(jobs):
        submitted.append(len(jobs))
        raise ConnectionError("no cluster")

    with pytest.raises(ConnectionError):
        run_rounds([stand_in("a")], broken)
    assert len(submitted) == 3


def test_a_mistyped_engine_is_named(stand_in):
    with pytest.raises(UnknownNameError, match="Did you mean 'loky'"), engine_named("lokky", 2):
        pass


@pytest.mark.parametrize("engine", ["sequential", "loky"])
def test_a_disk_that_stays_full_ends_the_grid_at_once(stand_in, engine):
    """Nothing is tried again, nobody is blamed: what is missing is room."""
    jobs = [stand_in("a"), stand_in("b", "full"), stand_in("c")]
    with pytest.raises(StorageError, match=r"1 of 3.* same command again"):
        _run(jobs, engine, workers=1)
    assert [job.folder.state for job in jobs] == [State.DONE, State.STOPPED, State.WAITING]
    assert jobs[1].folder.timing.starts == 1


def test_a_failed_line_that_just_fits_does_not_hide_a_full_disk(stand_in, monkeypatch):
    """A checkpoint does not fit, but the line that it failed would."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 10, 4096))
    job = stand_in("a", "raises")
    with pytest.raises(StorageError, match="No space left"):
        _run([job], "sequential")
    assert job.folder.failures == []


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO, errno.EACCES])
def test_a_folder_that_takes_nothing_is_named(stand_in, monkeypatch, number):
    def refused(*_, **__):
        raise OSError(number, "it must not be")

    monkeypatch.setattr("totalcal_lab.records.folders.append_line", refused)
    with pytest.raises(StorageError, match=r"it must not be .*runs/a.*: 0 of 1 are done"):
        _run([stand_in("a")], "sequential")
