"""Does ETP's memory earn its place? On, off, frozen, and with another start; with few labels; after training.

    python benchmarks/memory.py [--seeds 3]

ETP with a perceptron on scikit-learn's digits, 400 gradient steps whatever the number of rows, tested on 597
rows. The memory is written (as in the paper), written from cells of one class each, frozen
(`update_rule=identity`), or off: cells of zeros without noise, so that every input has the prior Dir(1). Then
two kinds of drift after training: a class that training never saw, and images turned by a quarter; the memory
takes in 100 labelled rows of them (`absorb_context`), and rows of the same kind are judged before and after.
Last, an ETP without a column for the class learns it from the same rows by its memory of features
(`memorise`): error and NLL on the new class, and the error on the nine others before and after.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

import totalcal
from totalcal import scores
from totalcal.functional.cells import identity, one_class_each
from totalcal.models.process import TuringProcess
from totalcal.nets import mlp

TRAIN, STEPS, BATCH, ABSORBED, NEW_CLASS, HELD_OUT = 1200, 400, 64, 100, 9, 200
LABELS_PER_CLASS = (2, 5, 20, 100)
MEMORIES: Mapping[str, Mapping[str, Any]] = {
    "written": {},
    "written, one class each": {"cell_start": one_class_each},
    "frozen": {"update_rule": identity},
    "off": {"update_rule": identity, "cell_start": torch.zeros, "cell_variance": 0.0},
}
Rows = tuple[Tensor, Tensor]


def digits() -> Rows:
    inputs, labels = (torch.tensor(column) for column in load_digits(return_X_y=True))
    return (inputs.float() - 8) / 6, labels


def turned(rows: Rows) -> Rows:
    return rows[0].unflatten(1, (8, 8)).rot90(1, (1, 2)).flatten(1), rows[1]


def new_class(rows: Rows) -> Rows:
    kept = rows[1] == NEW_CLASS
    return rows[0][kept], rows[1][kept]


def without_new_class(rows: Rows) -> Rows:
    kept = rows[1] != NEW_CLASS
    return rows[0][kept], rows[1][kept]


def trained(options: Mapping[str, Any], rows: Rows, seed: int, classes: int = 10) -> TuringProcess:
    torch.manual_seed(seed)
    model = totalcal.etp(mlp(64, classes), num_classes=classes, **options)
    steps_per_epoch = -(-len(rows[1]) // BATCH)
    generator = torch.Generator().manual_seed(seed)
    totalcal.train(model, *rows, epochs=STEPS // steps_per_epoch, batch_size=BATCH, generator=generator)
    return model


def few(rows: Rows, per_class: int, seed: int) -> Rows:
    order = torch.randperm(len(rows[1]), generator=torch.Generator().manual_seed(seed))
    kept = torch.cat([order[rows[1][order] == label][:per_class] for label in range(10)])
    return rows[0][kept], rows[1][kept]


def judged(model: TuringProcess, rows: Rows) -> list[float]:
    """Error %, NLL, ECE %."""
    found = model.predict(rows[0]).probabilities
    truth = rows[1]
    return [100 * scores.error(found, truth), scores.nll(found, truth), 100 * float(scores.ece(found, truth))]


def before_and_after(model: TuringProcess, new: Rows, test: Rows, seed: int) -> list[float]:
    """Error % and NLL on drifted rows, before and after the memory took in others like them."""
    before = judged(model, test)[:2]
    model.absorb_context(new[0][:ABSORBED], new[1][:ABSORBED], generator=torch.Generator().manual_seed(seed))
    return [*before, *judged(model, test)[:2]]


def memorised(train: Rows, test: Rows, seed: int) -> list[float]:
    """Error % and NLL on the class learned, error % on the nine others before and after."""
    inputs, labels = without_new_class(train)
    rows, held_out = (inputs[HELD_OUT:], labels[HELD_OUT:]), (inputs[:HELD_OUT], labels[:HELD_OUT])
    model = trained({}, rows, seed, classes=9)
    totalcal.remember(model, rows, held_out, progress=False)
    before, (new, numbers) = judged(model, without_new_class(test)), new_class(train)
    model.memorise(new[:ABSORBED], numbers[:ABSORBED])
    after, others = judged(model, new_class(test)), judged(model, without_new_class(test))
    return [*after[:2], before[0], others[0]]


def row(name: str, seeds: int, figures: Callable[[int], list[float]]) -> None:
    found = np.array([figures(seed) for seed in range(seeds)])
    cells = [f"{mean:.2f} ± {spread:.2f}" for mean, spread in zip(found.mean(0), found.std(0), strict=True)]
    print(f"| {name} |", " | ".join(cells), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    inputs, labels = digits()
    train, test = (inputs[:TRAIN], labels[:TRAIN]), (inputs[TRAIN:], labels[TRAIN:])
    print("| labels per class, memory | error, % | NLL | ECE, % |\n|---|---|---|---|")
    for per_class in LABELS_PER_CLASS:
        for name, options in MEMORIES.items():

            def learnt(seed: int, options: Any = options, per_class: int = per_class) -> list[float]:
                return judged(trained(options, few(train, per_class, seed), seed), test)

            row(f"{per_class}, {name}", seeds, learnt)
    drifts = {"a new class": (without_new_class(train), new_class), "rotated images": (train, turned)}
    print("\n| drift, memory | error before, % | NLL before | error after, % | NLL after |")
    print("|---|---|---|---|---|")
    for drift, (seen, drifted) in drifts.items():
        for name in ("written", "written, one class each"):

            def absorbed(seed: int, of: str = name, seen: Rows = seen, new: Any = drifted) -> list[float]:
                return before_and_after(trained(MEMORIES[of], seen, seed), new(train), new(test), seed)

            row(f"{drift}, {name}", seeds, absorbed)
    print("\n| learned by features | error after, % | NLL after | error of others before, % | after, % |")
    print("|---|---|---|---|---|")
    row("a new class", seeds, lambda seed: memorised(train, test, seed))


if __name__ == "__main__":
    main()
