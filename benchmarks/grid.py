"""How well a grid fills the cores: the same runs with one worker and with several, start of workers included.

    python benchmarks/grid.py [--workers 2] [--seeds 3] [--epochs 60]

The results of both must agree bit for bit; the target is a speed-up of 1.85 with two workers. The wall clock
tells it only where nothing else runs; processor time, shared evenly by the workers, tells it anywhere, but
does not see workers that wait for each other.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from totalcal.bench.grid import Grid, grid_jobs
from totalcal.records.folders import run_folders

MODELS = ("softmax", "bnn", "edl", "etp")
TARGET = 0.925  # of the number of workers


class Times(NamedTuple):
    """By the wall clock, and on the processor a worker."""

    wall: float
    processor: float


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measured(root: Path, workers: int, seeds: int, epochs: int) -> Times:
    """The time of the whole grid."""
    started, used = time.perf_counter(), processor_seconds()
    jobs = grid_jobs(Grid("digits", "laptop", {"epochs": epochs}).configurations(MODELS, seeds), root)
    jobs.run("loky", workers)
    assert jobs.are_done, [folder.failures for folder in jobs.folders()]
    shut_down()
    return Times(time.perf_counter() - started, (processor_seconds() - used) / workers)


def shut_down() -> None:
    """The next grid starts workers of its own."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


def records(root: Path) -> list[bytes]:
    return [run.records_file.read_bytes() for run in run_folders(root)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one, several = Path(folder, "one"), Path(folder, "several")
        alone = measured(one, 1, options.seeds, options.epochs)
        together = measured(several, options.workers, options.seeds, options.epochs)
        assert records(one) == records(several), "the number of workers has changed a result"
    print(f"{options.seeds * len(MODELS)} runs with 1 and with {options.workers} workers, the same results")
    for clock in Times._fields:
        first, second = getattr(alone, clock), getattr(together, clock)
        print(f"{clock:>9}: {first:6.1f} s, {second:6.1f} s: speed-up {first / second:.2f}")
    print(f"target {TARGET * options.workers:.2f}")


if __name__ == "__main__":
    main()
