"""How long the paper's own nets train: a step of each, and the hours of all its epochs, on one core.

    python benchmarks/full_size.py [--rounds 3] [--record docs/results/records/hours.jsonl]

The tasks, nets, epochs and batches of the paper's Table 2, as in the preset `paper`; in float32, and with
products in bfloat16 (autocast; `totalcal-lab run --set precision=bf16-mixed`) for processors that have them.
Seconds are those of the processor, so that other work on the machine does not count.
"""

import argparse
import time
from pathlib import Path

import torch

from totalcal.models import TuringProcess
from totalcal_lab.data import CATALOGUE, TASKS
from totalcal_lab.grid.building import build_process
from totalcal_lab.grid.grid import Grid
from totalcal_lab.grid.presets import preset
from totalcal_lab.records.paper import OOD_SETS, PRINTED_MODELS
from totalcal_lab.records.store import write_lines

CONTEXT = 25
PRECISIONS = ("float32", "bfloat16")
OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


class Training:
    """A model of the family and its optimiser; a call is a step."""

    def __init__(self, model: TuringProcess, task: str, precision: str) -> None:
        chosen, kind = preset(task), TASKS[task].kind
        self.model, self.half = model.train(), precision == "bfloat16"
        if kind == "image":
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = OPTIMIZERS[chosen.optimisation.optimizer](model.parameters(), lr=1e-4, fused=True)
        shape = (chosen.batch_size, *TASKS[task].input_shape)
        self.inputs = torch.randint(1, 1001, shape) if kind == "tokens" else torch.randn(shape)
        if kind == "image":
            self.inputs = self.inputs.to(memory_format=torch.channels_last)
        self.labels = torch.randint(model.num_classes, (chosen.batch_size,))

    def __call__(self) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
            terms, _ = self.model.step(self.inputs, self.labels, context=CONTEXT)
        self.optimizer.zero_grad()
        terms.total(examples=50_000).backward()
        self.optimizer.step()


def seconds_of(step: Training) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lines = []
    print(f"{'':14}" + "".join(f"{name + ' s':>12}{'hours':>7}" for name in PRECISIONS))
    for task in OOD_SETS:
        chosen, rows = preset(task), CATALOGUE[TASKS[task].source].splits["train"].count
        steps = chosen.epochs * -(-rows // chosen.batch_size)
        for config in Grid(task, "paper", {}).configurations(PRINTED_MODELS, 1):
            candidates = [Training(build_process(config), task, each) for each in PRECISIONS]
            turns = [[seconds_of(each) for each in candidates] for _ in range(1 + options.rounds)]
            seconds = [min(times) for times in zip(*turns[1:], strict=True)]  # the first finds cold caches
            hours = [each * steps / 3600 for each in seconds]
            cells = "".join(f"{each:12.2f}{each * steps / 3600:7.1f}" for each in seconds)
            print(f"{task:9}{config.model:5}{cells}", flush=True)
            named = dict(zip(("hours", "hours_bf16"), hours, strict=True))
            lines.append(
                {**config.identity, "steps": steps, **{key: round(value, 2) for key, value in named.items()}}
            )
    if options.record:
        write_lines(options.record, lines)


if __name__ == "__main__":
    main()
