"""How long the paper's own nets train: a step of each, and the hours of all its epochs, on one core.

    python benchmarks/full_size.py [--rounds 3]

CIFAR-10 and SVHN with LeNet5 for 100 epochs, CIFAR-100 with a ResNet-18 for 200, batches of 128, as in the
preset `paper`; in float32, and with bfloat16 in products (autocast) for processors that have them. Seconds
are those of the processor, so that other work on the machine does not count.
"""

import torch
from interleaved import arguments, measured
from torch import nn

import totalcal_lab.backbones  # noqa: F401 - it registers the paper's nets
from totalcal.models import TuringProcess, model_named
from totalcal.nets import BACKBONES
from totalcal_lab.data import TASKS
from totalcal_lab.grid.presets import preset

MODELS = ("softmax", "bnn", "edl", "enp", "etp")
ROWS = {"cifar10": 50_000, "svhn": 73_257, "cifar100": 50_000}
CONTEXT = 25
PRECISIONS = ("float32", "bfloat16")


class Training:
    """A model of the family and its optimiser; a call is a step."""

    def __init__(self, model: TuringProcess, classes: int, batch: int, precision: str) -> None:
        self.model, self.half = model.train(), precision == "bfloat16"
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = torch.optim.Adam(model.parameters(), fused=True)
        self.inputs = torch.randn(batch, 3, 32, 32).to(memory_format=torch.channels_last)
        self.labels = torch.randint(classes, (batch,))

    def __call__(self) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
            terms, _ = self.model.step(self.inputs, self.labels, context=CONTEXT)
        self.optimizer.zero_grad()
        terms.total(examples=50_000).backward()
        self.optimizer.step()


def net(task: str, classes: int) -> nn.Module:
    chosen = preset(task)
    return BACKBONES[chosen.backbone](num_classes=classes, **chosen.backbone_options)


def main() -> None:
    rounds = arguments(__doc__, rounds=3).rounds
    print(f"{'':24}" + "".join(f"{name + ' s':>12}{'hours':>7}" for name in PRECISIONS))
    for task, rows in ROWS.items():
        chosen, classes = preset(task), len(TASKS[task].classes(()))
        steps = chosen.epochs * -(-rows // chosen.batch_size)
        for name in MODELS:
            candidates = {
                each: Training(
                    model_named(name)(net(task, classes), classes), classes, chosen.batch_size, each
                )
                for each in PRECISIONS
            }
            seconds = {each: min(times) for each, times in measured(candidates, rounds).items()}
            cells = "".join(f"{each:12.2f}{each * steps / 3600:7.1f}" for each in seconds.values())
            print(f"{task:10}{name:14}{cells}", flush=True)


if __name__ == "__main__":
    main()
