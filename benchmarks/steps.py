"""The time of a training step, every model against the plain net: LeNet5, 28×28, batch 128, one thread.

    python benchmarks/steps.py [--rounds 60]

All models take turns in one process, so that a noisy machine slows them alike; a ratio is the median over the
rounds of the two times of a round. A step is all that `fit` does: batch, context, write, loss, gradient,
update. `torch` is the same net in a bare loop of torch.
"""

import threading
from collections.abc import Callable
from functools import partial

import torch
from interleaved import arguments, measured, table
from torch import Tensor, nn

from totalcal import MODELS
from totalcal.models.process import TuringProcess
from totalcal.training import Callback, StepReport, fit
from totalcal_lab.backbones import lenet5

ROWS, BATCH = 128 * 40, 128
TARGETS = [("etp point", "torch", 1.10), ("bnn", "torch", 1.26)]


def images() -> tuple[Tensor, Tensor]:
    return torch.randn(ROWS, 1, 28, 28), torch.randint(10, (ROWS,))


def fit_step(model: TuringProcess, data: tuple[Tensor, Tensor]) -> Callable[[], object]:
    """One step of `fit`, epoch after epoch: the run is held at every step until the next is asked for."""
    go, done = threading.Semaphore(0), threading.Semaphore(0)

    class Held(Callback):
        def stepped(self, report: StepReport) -> None:
            done.release()
            go.acquire()

    run = partial(fit, model, data, epochs=10**6, batch_size=BATCH, callbacks=[Held()], progress=False)
    threading.Thread(target=run, daemon=True).start()
    done.acquire()

    def step() -> None:
        go.release()
        done.acquire()

    return step


def torch_step(net: nn.Module, data: tuple[Tensor, Tensor]) -> Callable[[], object]:
    """The least that training the plain net takes: channels_last, a fused Adam, slices of one tensor."""
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    inputs, labels = data

    def step() -> None:
        rows = torch.randint(ROWS, (BATCH,))
        loss = nn.functional.cross_entropy(net(inputs[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def main() -> None:
    options = arguments(__doc__, rounds=60)
    data = images()
    steps = {"torch": torch_step(lenet5(10), data)}
    steps |= {name: fit_step(make(lenet5(10), num_classes=10), data) for name, make in MODELS.items()}
    steps["etp point"] = fit_step(MODELS["etp"](lenet5(10), num_classes=10, layers="none"), data)
    times = measured(steps, options.rounds)
    print(table(times, baseline="torch", targets=TARGETS))


if __name__ == "__main__":
    main()
