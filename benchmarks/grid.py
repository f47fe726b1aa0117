"""How well a grid fills the cores: the same runs with one worker and with several, start of workers included.

    python benchmarks/grid.py [--workers 2] [--seeds 2] [--epochs 60]

The results of both must agree bit for bit; the target is a speed-up of 1.7 with two workers.
"""

import argparse
import tempfile
import time
from pathlib import Path

from totalcal.bench.grid import cell_jobs
from totalcal.bench.planning import Grid
from totalcal.records.folders import run_folders

MODELS = ("softmax", "bnn", "edl", "etp")
TARGET = 0.85  # of the number of workers


def seconds(root: Path, workers: int, seeds: int, epochs: int) -> float:
    """The time of the whole grid."""
    started = time.perf_counter()
    jobs = cell_jobs(Grid("digits", "laptop", {"epochs": epochs}).cells(MODELS, seeds), root)
    jobs.run("loky", workers)
    assert jobs.are_done, [folder.failures for folder in jobs.folders()]
    shut_down()
    return time.perf_counter() - started


def shut_down() -> None:
    """The next grid starts workers of its own."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


def records(root: Path) -> list[bytes]:
    return [run.records_file.read_bytes() for run in run_folders(root)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one, several = Path(folder, "one"), Path(folder, "several")
        alone = seconds(one, 1, options.seeds, options.epochs)
        together = seconds(several, options.workers, options.seeds, options.epochs)
        assert records(one) == records(several), "the number of workers has changed a result"
    speed_up, target = alone / together, TARGET * options.workers
    runs = options.seeds * len(MODELS)
    print(f"{runs} runs: {alone:.1f} s with 1 worker, {together:.1f} s with {options.workers}")
    print(f"speed-up {speed_up:.2f}, target {target:.2f}: {'met' if speed_up >= target else 'missed'}")


if __name__ == "__main__":
    main()
