"""The time of a training step, every model against the plain net: LeNet5, 28×28, batch 128, one thread.

    python benchmarks/steps.py [--rounds 60]

All models take turns in one process, so that a noisy machine slows them alike; a ratio is the median over the
rounds of the two times of a round. A step is all that `fit` does: batch, context, write, loss, gradient,
update. `torch` is the same net in a bare loop of torch.
"""

from collections.abc import Callable

import torch
from interleaved import arguments, measured, table
from torch import Tensor, nn

from totalcal import MODELS
from totalcal.models.process import TuringProcess
from totalcal.training.batches import epoch_batches
from totalcal.training.fit import Run
from totalcal.training.options import ADAM, ONE_DEVICE, PAPER_CONTEXTS, Settings
from totalcal.training.sources import TensorSource
from totalcal_lab.backbones import lenet5

ROWS, BATCH = 128 * 40, 128
TARGETS = [("etp point", "torch", 1.03), ("bnn", "torch", 1.13), ("etp", "bnn", 1.04)]


def images() -> tuple[Tensor, Tensor]:
    return torch.randn(ROWS, 1, 28, 28), torch.randint(10, (ROWS,))


def fit_step(model: TuringProcess, data: tuple[Tensor, Tensor]) -> Callable[[], object]:
    """One step of `fit`, epoch after epoch."""
    settings = Settings(100, BATCH, 0, ADAM, PAPER_CONTEXTS, None, "32-true")
    fabric, source = ONE_DEVICE.launch(), TensorSource(*data)
    run = Run(settings, model, model, source, None, fabric)
    run.descent.run.train()

    def forever():  # type: ignore[no-untyped-def]
        for epoch in range(10**6):
            for batch, context in epoch_batches(source, settings, epoch, 0, fabric.device, 0, 1):
                yield run.descent.step(batch, context, epoch, 0)

    return forever().__next__


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
