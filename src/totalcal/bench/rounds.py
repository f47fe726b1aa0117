"""The outer loop: a dead worker ends an engine's call, so what is unfinished is submitted again."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from totalcal.records.folders import RunFolder

_SUSPECT_AFTER = 2
_MOST_FALSE_STARTS = 3
_POLL_SECONDS = 1.0


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
