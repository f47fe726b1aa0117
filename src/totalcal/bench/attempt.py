"""One try at a run: take the folder's lock, work, leave a marker."""

from collections.abc import Callable, Sequence

from filelock import Timeout

from totalcal.errors import TotalcalError
from totalcal.records.folders import RunFolder

MOST_DEATHS = 3


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
