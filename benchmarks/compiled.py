"""What `torch.compile` does for a step and a prediction of a BNN: LeNet5, 28×28, batch 128, one thread.

    python benchmarks/compiled.py [--rounds 12]

Compiling itself is not counted, but said. It needs a C++ compiler.
"""

import time
from collections.abc import Callable

import torch
from interleaved import arguments, measured, table
from torch import Tensor

from totalcal import bnn
from totalcal_lab.backbones import lenet5

BATCH, CLASSES = 128, 10


def ready(job: Callable[[], object], name: str) -> Callable[[], object]:
    """The job after its first calls, which compile."""
    started = time.process_time()
    for _ in range(3):
        job()
    print(f"{name}: {time.process_time() - started:.0f} CPU seconds for the first three calls")
    return job


def main() -> None:
    options = arguments(__doc__, rounds=12)
    model, labels = bnn(lenet5(CLASSES), CLASSES), torch.arange(BATCH) % CLASSES
    inputs = torch.randn(BATCH, 1, 28, 28)

    def loss(rows: Tensor) -> Tensor:
        return model(rows, labels).total(examples=60_000)

    @torch.no_grad()
    def moments(rows: Tensor) -> Tensor:
        return model.predict(rows, draws="moments").probabilities

    compiled_loss, compiled_moments = torch.compile(loss), torch.compile(moments)
    steps = {
        "a step": ready(lambda: loss(inputs).backward(), "a step"),
        "a step, compiled": ready(lambda: compiled_loss(inputs).backward(), "a step, compiled"),
    }
    print(table(measured(steps, options.rounds), "a step") + "\n", flush=True)
    predictions = {
        "moments": ready(lambda: moments(inputs), "moments"),
        "moments, compiled": ready(lambda: compiled_moments(inputs), "moments, compiled"),
    }
    print(table(measured(predictions, options.rounds), "moments"))


if __name__ == "__main__":
    main()
