"""Jobs that leave their outcome in run folders: planned together, tried one by one until all are settled.

Where they run is an engine's business: joblib's backends, one thread per worker. Engines move work, they
decide nothing.
"""

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from filelock import Timeout

from totalcal.errors import MissingExtraError, TotalcalError, UnknownNameError
from totalcal_lab.records.folders import RunFolder

Job = Callable[[], None]

_ORPHAN_CHECK_SECONDS = 1.0
_NEVER = 10**6


@contextmanager
def _sequential(workers: int) -> Iterator[None]:
    """This process, one job after the other."""
    from joblib import parallel_config

    with parallel_config(backend="sequential"):
        yield


@contextmanager
def _loky(workers: int) -> Iterator[None]:
    """Processes of this machine."""
    from joblib import parallel_config

    with parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1):
        yield


@contextmanager
def _ray(workers: int) -> Iterator[Callable[[], int]]:
    """A ray cluster: that of RAY_ADDRESS, or one started on this machine.

    It refuses a pool of more workers than it has processors, and a host that fell out takes its own away.
    """
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise MissingExtraError("ray", "cluster", "the engine ray") from error
    from joblib import parallel_config

    started = not ray.is_initialized()
    if started:
        # Not the cluster of somebody else on this machine, which ray would join by itself.
        local = {} if "RAY_ADDRESS" in os.environ else {"address": "local", "num_cpus": workers}
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="error", **local)
    register_ray()
    try:
        with parallel_config(backend="ray", n_jobs=workers):
            yield lambda: max(1, min(workers, int(ray.cluster_resources().get("CPU", 1))))
    finally:
        if started:
            ray.shutdown()


@contextmanager
def _dask(workers: int) -> Iterator[None]:
    """A dask cluster: that of DASK_SCHEDULER_ADDRESS, or one started on this machine.

    Its scheduler restarts workers and their jobs, and blames what merely waited on a dead worker; a job that
    it gives up hangs joblib. So it never does here: a run gives up by itself.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtraError("distributed", "cluster", "the engine dask") from error
    from joblib import parallel_config

    with ExitStack() as stack:
        address = os.environ.get("DASK_SCHEDULER_ADDRESS")
        if address is None:
            stack.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": _NEVER}))
            address = stack.enter_context(
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50)
            )
        stack.enter_context(Client(address))
        stack.enter_context(parallel_config(backend="dask", n_jobs=workers))
        yield


ENGINES = {"loky": _loky, "sequential": _sequential, "ray": _ray, "dask": _dask}

Submit = Callable[[Sequence[Job]], None]


@contextmanager
def engine_named(name: str, workers: int) -> Iterator[Submit]:
    """`submit(jobs)` runs jobs in their order on a fresh pool; a dead worker may raise the engine's error."""
    if name not in ENGINES:
        raise UnknownNameError("engine", name, ENGINES)
    from joblib import Parallel, delayed

    call = partial(_guarded, os.getpid()) if name == "loky" else _plain

    with ENGINES[name](workers) as at_once:

        def submit(jobs: Sequence[Job]) -> None:
            number = None if at_once is None else at_once()
            Parallel(number, batch_size=1)(delayed(call)(job) for job in jobs)

        yield submit


def _plain(job: Job) -> None:
    job()


def _guarded(parent: int, job: Job) -> None:
    if os.getpid() != parent:  # a single worker is the parent itself
        _end_with(parent)
    job()


@cache
def _end_with(parent: int) -> None:
    """End this worker soon after its parent: one that was killed cannot stop its workers itself."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_ORPHAN_CHECK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


MOST_DEATHS = 3
_SUSPECT_AFTER = 2
_MOST_FALSE_STARTS = 3
_POLL_SECONDS = 1.0
_LEAST_SPACE = 1 << 20


class NeedFailedError(TotalcalError):
    """A run builds on another one, which was given up."""


class StorageError(TotalcalError):
    """The disk takes no more: no run can leave its outcome there."""


class WorkerDiedError(TotalcalError):
    """Again and again the process that worked on a run was killed or crashed."""


def attempt(folder: RunFolder, work: Callable[[RunFolder], None], needs: Sequence[RunFolder] = ()) -> None:
    """Do the work of a folder unless it is done, another process is at it, or what it needs is not there yet.

    Whatever the work raises stays in the folder as a failure, so that one run never stops the others.

    Raises:
        StorageError: The disk takes no more, so that nothing could stay in any folder.
    """
    try:
        with folder.lock():
            if folder.is_settled or not all(need.is_settled for need in needs):
                return
            if folder.timing.deaths >= MOST_DEATHS:
                folder.give_up(
                    WorkerDiedError(
                        f"the worker was killed or crashed {folder.timing.deaths} times in this run. "
                        "The usual cause is too little memory: try fewer --workers."
                    )
                )
                return
            _work(folder, work, needs)
    except Timeout:
        return
    except OSError as error:  # of the folder itself: the work's own errors stay in it
        raise StorageError(f"{error.strerror or error} ({folder.path})") from error


def _work(folder: RunFolder, work: Callable[[RunFolder], None], needs: Sequence[RunFolder]) -> None:
    folder.start()
    try:
        for need in needs:
            if not need.is_done:
                raise NeedFailedError(
                    f"this run builds on {need.name}, which failed. See failed.jsonl there, then run again."
                )
        work(folder)
        folder.finish()
    except Exception as error:
        if _is_full(folder.path, error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        folder.fail(error)


def _is_full(path: Path, error: BaseException) -> bool:
    """Whether the work failed for want of room; the line that says so may fit where a checkpoint does not."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return shutil.disk_usage(path).free < _LEAST_SPACE


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
        except StorageError as error:
            done = sum(job.folder.is_done for job in jobs)
            raise StorageError(
                f"{error}: {done} of {len(jobs)} are done, and nothing of them is lost. "
                "Make room, and give the same command again."
            ) from error
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
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
