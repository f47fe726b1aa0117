"""Where jobs run: joblib's backends, one thread a worker. Engines move work, they decide nothing."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial

from totalcal.errors import MissingExtraError, UnknownNameError

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
def _ray(workers: int) -> Iterator[None]:
    """A ray cluster: that of RAY_ADDRESS, or one started on this machine."""
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise MissingExtraError("ray", "cluster", "the engine ray") from error
    from joblib import parallel_config

    started = not ray.is_initialized()
    if started:
        local = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": workers}
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="error", **local)
    register_ray()
    try:
        with parallel_config(backend="ray", n_jobs=workers):
            yield
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

    def submit(jobs: Sequence[Job]) -> None:
        Parallel(batch_size=1)(delayed(call)(job) for job in jobs)

    with ENGINES[name](workers):
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
