"""How time and memory grow with the size of the task, one thread.

    python benchmarks/growth.py [--rounds 5] [--picture docs/images/growth.png]

Classes, cells, draws, rows of a batch, prototypes and held-out rows grow one at a time. The time of a size is
the least CPU time of the rounds, in which all sizes take turns; its memory is what a forked process needs at
its peak above what it started with. `exponent` is the slope between the last two sizes on logarithmic axes
against the work, which is the number of multiplications: at most 1 is linear, and more than 1.15 is marked.
"""

import argparse
import ctypes
import gc
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from totalcal import etp, remember, softmax
from totalcal.memory.domain_memory import DomainMemory
from totalcal.models.process import TuringProcess
from totalcal.nets import mlp

COLUMNS, HIDDEN, CLASSES, CELLS, DRAWS, BATCH = 32, 64, 10, 20, 10, 128
LINEAR = 1.15
Job = Callable[[], object]


class Size(NamedTuple):
    """What is done at one size, and how many multiplications that takes."""

    size: int
    job: Job
    work: float


class Found(NamedTuple):
    """CPU seconds, and bytes at the peak."""

    seconds: float
    peak: int


def rows(count: int) -> Tensor:
    return torch.randn(count, COLUMNS)


def model(classes: int = CLASSES, cells: int = CELLS) -> TuringProcess:
    return etp(mlp(COLUMNS, classes, (HIDDEN,)), classes, num_cells=cells).eval()


def prediction(process: TuringProcess, count: int, draws: int | str) -> Job:
    inputs = rows(count)

    def predict() -> object:
        predicted = process.predict(inputs, draws=draws)  # type: ignore[arg-type]
        return predicted.probabilities, predicted.entropy, predicted.decompose()

    return predict


def step(process: TuringProcess) -> Job:
    inputs, labels = rows(BATCH), torch.arange(BATCH) % process.num_classes

    def work() -> None:
        process.zero_grad()
        process(inputs, labels, context=BATCH // 2).total(examples=1000).backward()

    return work


def predicted_work(classes: int, cells: int, draws: int, count: int) -> float:
    """Of the net, of keys, scores and readout, and of the map of evidence."""
    net = 2 * COLUMNS * HIDDEN + draws * 2 * HIDDEN * classes
    read = draws * 2 * cells * classes
    evidence = draws * 2 * classes * classes
    return count * (net + read + evidence) + draws * cells * classes * classes


def by_classes(draws: int | str) -> list[Size]:
    return [
        Size(k, prediction(model(classes=k), BATCH, draws), predicted_work(k, CELLS, DRAWS, BATCH))
        for k in (10, 100, 1000)
    ]


def steps_by_classes() -> list[Size]:
    return [Size(k, step(model(classes=k)), predicted_work(k, CELLS, 1, BATCH)) for k in (10, 100, 1000)]


def by_cells(draws: int | str) -> list[Size]:
    return [
        Size(r, prediction(model(cells=r), BATCH, draws), predicted_work(CLASSES, r, DRAWS, BATCH))
        for r in (20, 200, 2000)
    ]


def by_draws() -> list[Size]:
    process = model()
    return [
        Size(s, prediction(process, BATCH, s), predicted_work(CLASSES, CELLS, s, BATCH))
        for s in (1, 10, 100, 1000)
    ]


def by_batch(draws: int | str) -> list[Size]:
    process = model()
    return [
        Size(n, prediction(process, n, draws), predicted_work(CLASSES, CELLS, DRAWS, n))
        for n in (1, 16, 256, 1024, 4096)
    ]


def memory_of(prototypes: int, train: int, held_out: int) -> Job:
    torch.manual_seed(0)
    process = softmax(mlp(COLUMNS, CLASSES, (HIDDEN,)), CLASSES).eval()
    first, second = rows(train), rows(held_out)
    given = (first, torch.arange(train) % CLASSES), (second, torch.arange(held_out) % CLASSES)

    def make() -> DomainMemory:
        return remember(process, *given, prototypes=prototypes, progress=False)

    return make


def remembered(prototypes: int, train: int, held_out: int) -> TuringProcess:
    process = softmax(mlp(COLUMNS, CLASSES, (HIDDEN,)), CLASSES).eval()
    given = rows(train), torch.arange(train) % CLASSES
    remember(
        process,
        given,
        (rows(held_out), torch.arange(held_out) % CLASSES),
        prototypes=prototypes,
        progress=False,
    )
    return process


def by_prototypes() -> list[Size]:
    return [
        Size(p, prediction(remembered(p, 5 * p, 1000), BATCH, 0), BATCH * p * (COLUMNS + HIDDEN))
        for p in (50, 500, 5000)
    ]


def remembering_by_prototypes() -> list[Size]:
    return [Size(p, memory_of(p, 25_000, 1000), p) for p in (50, 500, 5000)]


def by_held_out() -> list[Size]:
    return [Size(n, memory_of(50, 1000, n), n) for n in (1_000, 10_000, 100_000)]


def by_training_rows() -> list[Size]:
    return [Size(n, memory_of(200, n, 1000), n) for n in (1_000, 10_000, 100_000)]


GROWTHS: dict[str, Callable[[], list[Size]]] = {
    "classes, 10 draws": lambda: by_classes(DRAWS),
    "classes, moments": lambda: by_classes("moments"),
    "classes, a step": steps_by_classes,
    "cells, 10 draws": lambda: by_cells(DRAWS),
    "cells, moments": lambda: by_cells("moments"),
    "draws": by_draws,
    "batch, 10 draws": lambda: by_batch(DRAWS),
    "batch, moments": lambda: by_batch("moments"),
    "prototypes, predict": by_prototypes,
    "prototypes, remember": remembering_by_prototypes,
    "held-out rows, remember": by_held_out,
    "training rows, remember": by_training_rows,
}


def seconds(job: Job) -> float:
    """At least a hundredth of a second is timed."""
    started, runs = time.process_time(), 0
    while True:
        job()
        runs += 1
        passed = time.process_time() - started
        if passed > 0.01:
            return passed / runs


def peak(job: Job, smallest: Job) -> int:
    """Bytes at the peak of a forked process, above those that it has when its code is loaded."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        smallest()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what was freed before would hide what is needed now
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = status("VmRSS")
        job()
        os.write(writing, str(max(status("VmHWM") - before, 0)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        found = told.read()
    os.waitpid(child, 0)
    return int(found or 0)


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def measured(sizes: list[Size], rounds: int) -> list[Found]:
    """All sizes in turn; memory last, when nothing is done for the first time any more."""
    times = [[seconds(size.job) for size in sizes] for _ in range(rounds)]
    peaks = [peak(size.job, sizes[0].job) for size in sizes]
    gc.collect()
    return [Found(min(column), most) for column, most in zip(zip(*times, strict=True), peaks, strict=True)]


def exponent(sizes: list[Size], values: list[float]) -> float:
    """Between the last two sizes, against the work."""
    if min(values[-2:]) <= 0:
        return 0.0
    return math.log(values[-1] / values[-2]) / math.log(sizes[-1].work / sizes[-2].work)


def line(name: str, sizes: list[Size], found: list[Found]) -> str:
    times = ", ".join(f"{1000 * each.seconds:,.2f}" for each in found)
    peaks = ", ".join(f"{each.peak / 1e6:,.1f}" for each in found)
    in_time = exponent(sizes, [each.seconds for each in found])
    in_bytes = exponent(sizes, [float(each.peak) for each in found])
    verdict = "linear" if in_time <= LINEAR else "MORE THAN LINEAR"
    counts = ", ".join(f"{size.size:,}" for size in sizes)
    return f"| {name} | {counts} | {times} | {in_time:.2f} | {peaks} | {in_bytes:.2f} | {verdict} |"


def draw(results: dict[str, tuple[list[Size], list[Found]]], file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, attribute, label, unit in zip(
        figure.subplots(1, 2), Found._fields, ("CPU ms", "MB at the peak"), (1e3, 1e-6), strict=True
    ):
        for index, (name, (sizes, found)) in enumerate(results.items()):
            values = [unit * getattr(each, attribute) for each in found]
            work = [size.work / sizes[0].work for size in sizes]
            style = "-" if index < 10 else "--"  # there are ten colours
            axes.plot(work, [max(each, 1e-2) for each in values], style, marker="o", markersize=3, label=name)
        axes.set(xscale="log", yscale="log", xlabel="work, in that of the smallest size", ylabel=label)
        axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--only", nargs="+", choices=list(GROWTHS), default=list(GROWTHS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| what grows | sizes | CPU ms | exponent | MB at the peak | exponent | |")
    print("|---|---|---|---|---|---|---|")
    results = {}
    for name in options.only:
        sizes = GROWTHS[name]()
        results[name] = sizes, measured(sizes, options.rounds)
        print(line(name, *results[name]), flush=True)
    if options.picture is not None:
        draw(results, options.picture)


if __name__ == "__main__":
    main()
