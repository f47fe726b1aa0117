"""One try at a run."""

import pytest

from totalcal.bench.jobs import attempt
from totalcal.records.folders import RunFolder, State


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
