"""The demo: nets trained on handwritten digits, judged on all three aspects, letters being the OOD inputs."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from totalcal.data import digits, letters
from totalcal.memory import remember
from totalcal.models import model_named
from totalcal.nets import mlp
from totalcal.report import ASPECTS, Entry, Record, Table, aggregate, by_seed, describe, show, unbeaten
from totalcal.scores import evaluate
from totalcal.training import train
from totalcal.types import Batch

MODELS = ("softmax", "bnn", "etp")
ROWS = 1797


def demo_records(seeds: int, epochs: int) -> Iterator[dict[str, Any]]:
    """One record per model and seed: plain, Bayesian and evidential nets that remember their domain."""
    images, labels = digits()
    inputs, classes = _scaled(torch.from_numpy(images)), torch.from_numpy(labels)
    outside = _scaled(torch.from_numpy(letters(size=8, count=1000).inputs))
    for seed in range(seeds):
        order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(seed))
        fit, held_out, test = (
            Batch(inputs[rows], classes[rows]) for rows in (order[:1000], order[1000:1300], order[1300:])
        )
        for name in MODELS:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = model_named(name)(mlp(64, 10, hidden=(64,)), num_classes=10)
                train(model, *fit, epochs=epochs)
            remember(model, fit, held_out)
            verdict = evaluate(model, test, ood={"letters": outside}, uncertainty="unfamiliarity")
            scores = {"error": verdict.error, "nll": verdict.nll, "ece": float(verdict.ece)}
            run = {"task": "digits", "preset": "demo", "model": name, "seed": seed, "epochs": epochs}
            yield run | scores | {"auroc": verdict.auroc, "majority_error": verdict.majority_error}


def demo_table(records: list[Record]) -> Table:
    """A row per model; bold is what no other beats in a paired test over seeds."""
    keys = ("error", *ASPECTS.values())
    best: dict[str, set[str]] = {key: unbeaten(key, by_seed(records, key)) for key in keys}
    rows = [
        (Entry(model), *(Entry(show(key, scores[key]), bold=model in best[key]) for key in keys))
        for (_, _, model), scores in aggregate(records).items()
    ]
    titles = [describe(key).title for key in keys]
    return Table.of_rows(
        "demo", "Means over seeds; a star: not beaten in a paired test.", ["", *titles], rows
    )


def run_demo(seeds: int, epochs: int, on_record: Callable[[Record], None]) -> Table:
    """All runs of the demo, one after the other."""
    records: list[Record] = []
    for record in demo_records(seeds, epochs):
        on_record(record)
        records.append(record)
    return demo_table(records)


def _scaled(pictures: Tensor) -> Tensor:
    return (pictures.float().flatten(1) - 128) / 96
