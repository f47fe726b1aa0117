"""Jobs that leave their outcome in run folders: planned together, tried one by one until all are settled."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from filelock import Timeout

from totalcal.bench.engines import engine_named
from totalcal.errors import TotalcalError
from totalcal.records.folders import RunFolder

MOST_DEATHS = 3
_SUSPECT_AFTER = 2
_MOST_FALSE_STARTS = 3
_POLL_SECONDS = 1.0


class NeedFailedError(TotalcalError):
    """A run builds on another one, which was given up."""


class WorkerDiedError(TotalcalError):
    """Again and again the process that worked on a run was killed or crashed."""


def attempt(folder: RunFolder, work: Callable[[RunFolder], None], needs: Sequence[RunFolder] = ()) -> None:
    """Do the work of a folder unless it is done, another process is at it, or what it needs is not there yet.

    Whatever the work raises stays in the folder as a failure, so that one run never stops the others.
    """
    try:
        with folder.lock():
            if folder.is_settled or not all(need.is_settled for need in needs):
                return
            if folder.timing.deaths >= MOST_DEATHS:
                folder.give_up(_died(folder.timing.deaths))
                return
            _work(folder, work, needs)
    except Timeout:
        return


def _work(folder: RunFolder, work: Callable[[RunFolder], None], needs: Sequence[RunFolder]) -> None:
    folder.start()
    try:
        _check(needs)
        work(folder)
    except Exception as error:
        folder.fail(error)
    else:
        folder.finish()


def _check(needs: Sequence[RunFolder]) -> None:
    for need in needs:
        if not need.is_done:
            raise NeedFailedError(
                f"this run builds on {need.name}, which failed. See failed.jsonl there, then run again."
            )


def _died(times: int) -> WorkerDiedError:
    return WorkerDiedError(
        f"the worker was killed or crashed {times} times in this run. The usual cause is too little memory: "
        "try fewer --workers."
    )


class FolderJob(Protocol):
    """Work that leaves its outcome in a run folder."""

    @property
    def folder(self) -> RunFolder: ...

    def __call__(self) -> None: ...


def run_rounds(jobs: Sequence[FolderJob], submit: Callable[[Sequence[FolderJob]], None]) -> None:
    """Submit on fresh pools until every job is done or given up.

    A worker may be killed before it began with anything; an engine that fails so again and again is an error.
    """
    false_starts = 0
    while unfinished := [job for job in jobs if not job.folder.is_settled]:
        turn = _turn(unfinished)
        starts = [job.folder.timing.starts for job in turn]
        try:
            submit(turn)
        except Exception:  # a job's own errors stay in its folder: this is the engine's
            begun = [job.folder.timing.starts for job in turn] != starts
            false_starts = 0 if begun else false_starts + 1
            if false_starts == _MOST_FALSE_STARTS:
                raise
        else:
            if not any(job.folder.is_settled for job in turn):
                time.sleep(_POLL_SECONDS)  # other processes are at all of them


def _turn(unfinished: Sequence[FolderJob]) -> Sequence[FolderJob]:
    """All of them; but one that died twice goes alone, so that no innocent dies with it a third time.

    A death strikes everything in flight, and nobody says who caused it.
    """
    suspects = [job for job in unfinished if job.folder.timing.deaths >= _SUSPECT_AFTER]
    return suspects[:1] or unfinished


class PlannedJob(FolderJob, Protocol):
    """A job whose folder says from the beginning what it is about."""

    @property
    def config(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Jobs:
    """A set of jobs and their folders."""

    jobs: Sequence[PlannedJob]

    @classmethod
    def planned(cls, jobs: Sequence[PlannedJob]) -> "Jobs":
        """Every folder is there from the beginning, so that whoever looks sees what is still to come."""
        for job in jobs:
            job.folder.plan(job.config)
            if not job.folder.is_done:
                job.folder.ask()
        return cls(jobs)

    def folders(self) -> list[RunFolder]:
        return [job.folder for job in self.jobs]

    @property
    def are_done(self) -> bool:
        return all(folder.is_done for folder in self.folders())

    def run(self, engine: str = "loky", workers: int = 1) -> None:
        """Until every job is done or given up."""
        with engine_named(engine, workers) as submit:
            run_rounds(self.jobs, submit)


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums depend on how many threads share them, so every run has one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
