"""How well a grid fills the cores: the same runs with one worker and with several, start of workers included.

    python benchmarks/grid.py [--workers 2] [--seeds 2] [--epochs 60] [--rounds 3]

The results of both must agree bit for bit; the target is a speed-up of 1.85 with two workers. The wall clock
tells it only where nothing else runs; processor time, shared evenly by the workers, tells it anywhere, but
does not see workers that wait for each other. The ceiling is what the machine itself allows: bare torch loops
of such a net in processes that share nothing, several at once against one alone.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch
from interleaved import spread

from totalcal.nets import small_convnet
from totalcal_lab.grid.grid import Grid, grid_jobs
from totalcal_lab.records.folders import run_folders

MODELS = ("softmax", "bnn", "edl", "etp")
TARGET = 0.925  # of the number of workers
WARM_UP, BARE_SECONDS = 6.0, 15.0


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


def bare(start: float) -> int:
    """The steps of a plain net that fit between `start` and its end."""
    torch.set_num_threads(1)
    net, inputs, labels = small_convnet(10), torch.randn(64, 1, 8, 8), torch.arange(64) % 10
    optimiser, steps = torch.optim.Adam(net.parameters()), 0
    while (now := time.time()) < start + BARE_SECONDS:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), labels).backward()
        optimiser.step()
        steps += now >= start
    return steps


def bare_steps(processes: int) -> int:
    """Of several processes at once, all together."""
    command = [sys.executable, __file__, "--bare", str(time.time() + WARM_UP)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(processes)]
    return sum(int(process.communicate()[0]) for process in running)


def speed_ups(workers: int, seeds: int, epochs: int) -> tuple[float, float, float]:
    """Of the grid by the wall clock and on the processor, and of bare loops: what several workers gain."""
    with tempfile.TemporaryDirectory() as folder:
        one, several = Path(folder, "one"), Path(folder, "several")
        alone, together = measured(one, 1, seeds, epochs), measured(several, workers, seeds, epochs)
        assert records(one) == records(several), "the number of workers has changed a result"
    ceiling = bare_steps(workers) / bare_steps(1)
    return alone.wall / together.wall, alone.processor / together.processor, ceiling


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bare", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.bare is not None:
        print(bare(options.bare))
        return
    found = [speed_ups(options.workers, options.seeds, options.epochs) for _ in range(options.rounds)]
    print(f"{options.seeds * len(MODELS)} runs with 1 and with {options.workers} workers, the same results")
    for clock, each in zip((*Times._fields, "ceiling"), zip(*found, strict=True), strict=True):
        print(f"{clock:>9}: {spread(each, 2)} times as fast (quartiles)")
    print(f"target {TARGET * options.workers:.2f} by the wall clock")


if __name__ == "__main__":
    main()
