"""What a memory of the domain costs: at prediction, when it is made, and in bytes; one thread.

    python benchmarks/domain.py [--rounds 20]

Predictions of 128 images with and without the memory take turns in one process; a ratio is the median over
the rounds. `remember` is set against plain passes of the net over the same rows. The widest layer is one of
4,096 features, in a process of its own whose peak memory is compared with that of the same net without one.
"""

import multiprocessing
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from interleaved import arguments, measured, spread, table
from torch import Tensor, nn

from totalcal import etp, remember, softmax
from totalcal.memory.domain import NoDomain
from totalcal.models.process import TuringProcess
from totalcal_lab.backbones import lenet5, resnet18

BATCH, ROWS, HELD_OUT, CLASSES = 128, 10_000, 1_000, 10
AIM, AIM_OF_REMEMBERING, WIDE, AIM_OF_BYTES = 1.15, 1.5, 4_096, 1e9


def images(rows: int, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(rows, *shape)
    return inputs.to(memory_format=torch.channels_last), torch.arange(rows) % CLASSES


def predictions(model: TuringProcess, inputs: Tensor) -> Callable[[], object]:
    def predict() -> object:
        prediction = model.predict(inputs)
        return prediction.probabilities, prediction.entropy, prediction.domain

    return predict


def at_prediction(name: str, model: TuringProcess, shape: tuple[int, ...], rows: int, rounds: int) -> None:
    model.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    remember(model, images(rows, shape), images(HELD_OUT, shape), progress=False)
    memory, inputs = model.domain, images(BATCH, shape)[0]
    predict = predictions(model, inputs)

    def without() -> object:
        model.domain = NoDomain()
        return predict()

    def with_it() -> object:
        model.domain = memory
        return predict()

    times = measured({f"{name} without": without, f"{name} with": with_it}, rounds)
    print(table(times, f"{name} without", [(f"{name} with", f"{name} without", AIM)]) + "\n")


def when_made(rounds: int) -> None:
    """What a training row costs, in passes, and what is left over: k-means and inverses, in seconds."""
    model, train = softmax(lenet5(CLASSES), CLASSES).eval(), images(ROWS, (1, 28, 28))
    held_out, half = images(HELD_OUT, (1, 28, 28)), tuple(part[: ROWS // 2] for part in train)

    @torch.no_grad()
    def passes() -> None:
        for rows in train[0].split(256):
            model.backbone(rows)

    found = []
    for _ in range(max(rounds // 3, 3)):
        once = seconds(passes)
        whole = seconds(lambda: remember(model, train, held_out, progress=False))
        less = seconds(lambda: remember(model, half, held_out, progress=False))
        slope = 2 * (whole - less)  # of all training rows
        found.append((whole / once, slope / once, whole - slope))
    total, by_row, constant = zip(*found, strict=True)
    verdict = "met" if statistics.median(by_row) <= AIM_OF_REMEMBERING else "MISSED"
    print(f"remember / a plain pass over {ROWS} rows: {spread(total, 2)} in all (quartiles);")
    print(f"{spread(by_row, 2)} that grow with the rows and {spread(constant, 2)} s that do not")
    print(f"aim ≤ {AIM_OF_REMEMBERING} plus seconds: {verdict}\n", flush=True)


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def wide(with_memory: bool, results: "multiprocessing.Queue[float]") -> None:
    """The peak of a process in bytes."""
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(64, WIDE), nn.ReLU(), nn.Linear(WIDE, CLASSES))
    model, started = softmax(net, CLASSES).eval(), time.process_time()
    rows = (torch.randn(5_000, 64), torch.arange(5_000) % CLASSES)
    if with_memory:
        remember(model, rows, (rows[0][:500], rows[1][:500]), progress=False)
    model.predict(rows[0][:BATCH])
    peak = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    results.put(1024.0 * int(peak.split()[1]))  # not `ru_maxrss`, which begins with the parent's
    results.put(time.process_time() - started)


def in_bytes() -> None:
    context, peaks = multiprocessing.get_context("spawn"), []
    for with_memory in (False, True):
        results: multiprocessing.Queue[float] = context.Queue()
        process = context.Process(target=wide, args=(with_memory, results))
        process.start()
        peaks.append(results.get())
        seconds = results.get()
        process.join()
    grown = peaks[1] - peaks[0]
    verdict = "met" if grown < AIM_OF_BYTES else "MISSED"
    print(f"{WIDE} features: {grown / 1e6:.0f} MB more at the peak, {seconds:.1f} s; aim < 1 GB: {verdict}")


def main() -> None:
    options = arguments(__doc__, rounds=20)
    at_prediction("LeNet5 softmax", softmax(lenet5(CLASSES), CLASSES), (1, 28, 28), 5_000, options.rounds)
    at_prediction("LeNet5 etp", etp(lenet5(CLASSES), CLASSES), (1, 28, 28), 5_000, options.rounds)
    small = resnet18(CLASSES, stem="cifar", width=16)
    at_prediction(
        "ResNet-18 softmax", softmax(small, CLASSES), (3, 32, 32), 1_000, max(options.rounds // 4, 3)
    )
    at_prediction("ResNet-18 etp", etp(small, CLASSES), (3, 32, 32), 1_000, max(options.rounds // 4, 3))
    when_made(options.rounds)
    in_bytes()


if __name__ == "__main__":
    main()
