"""How the default width of the estimators was chosen: on tables that `tables.py` does not judge.

    python benchmarks/tables_choice.py [--large | --batches | --drawn]

Iris, two tables of scikit-learn's generator and one of Gaussian classes; the NLL of ETPClassifier by
three-fold cross-validation, in parts of a table's mean over the widths, so that every table has one voice.
The width with the least mean over the tables is taken.

`--large`: the same question for 20,000 rows and more, where the batch size begins to grow; one generated
table of 20,000 × 50 that `large_table.py` does not judge, 20 epochs, 4,000 other rows, CPU seconds beside.

`--batches`: how large batches get; 80,000 rows of another generated table, 10,000 other rows.

`--drawn`: how many rows a step of drawn weights takes, up to 16,000 rows, and at which rate; the tables of
the first question and more generated ones, NLL and seconds of `fit` relative to SoftmaxClassifier's.
"""

import argparse
import math
import time
from collections.abc import Iterator

import numpy as np
import torch
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import StratifiedKFold, cross_val_score, cross_validate
from tables import Table, generated

from totalcal import ETPClassifier, SoftmaxClassifier, scores

WIDTHS = ((32,), (64,), (128,), (64, 64))
LARGE_WIDTHS = ((32,), (64,), (128,))
BATCHES = (512, 1024)
MADE = ((300, 10, 2), (600, 20, 4))  # rows, columns, classes
MORE = ((400, 8, 2, 0.8), (900, 15, 3, 1.0), (1500, 10, 5, 1.2), (2000, 30, 2, 0.6))  # and their separation
STEPS = ((64, 3e-3), (128, 3e-3 * 2**0.5), (128, 6e-3), (256, 6e-3))  # rows and learning rate
GAUSSIANS_SEED = 1  # `tables.py` has another


def tables() -> Iterator[tuple[str, Table]]:
    yield "iris", Table(*load_iris(return_X_y=True))
    for seed, (rows, columns, classes) in enumerate(MADE):
        table = make_classification(
            rows,
            columns,
            n_informative=columns // 2,
            n_classes=classes,
            class_sep=1.5,
            flip_y=0.02,
            random_state=seed,
        )
        yield f"made, {rows} × {columns}, {classes} classes", Table(*table)
    yield "Gaussians", generated(GAUSSIANS_SEED, rows=600)


def more_tables() -> Iterator[Table]:
    for seed, (rows, columns, classes, separation) in enumerate(MORE, start=50):
        made = make_classification(
            rows,
            columns,
            n_informative=columns // 2,
            n_classes=classes,
            class_sep=separation,
            flip_y=0.05,
            n_clusters_per_class=2 if classes < 4 else 1,
            random_state=seed,
        )
        yield Table(*made)


def choose_steps_of_drawn_weights() -> None:
    """Geometric means over the tables."""
    makers = [SoftmaxClassifier(random_state=0)]
    makers += [ETPClassifier(batch_size=size, learning_rate=rate, random_state=0) for size, rate in STEPS]
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    found = []
    for table in [*(table for _, table in tables()), *more_tables()]:
        parts = (
            cross_validate(make, *table, cv=folds, scoring="neg_log_loss", error_score="raise")
            for make in makers
        )
        found.append([[-each["test_score"].mean(), each["fit_time"].mean()] for each in parts])
    logs = np.log(found)
    relative = np.exp((logs - logs[:, :1]).mean(0))
    print("| rows, rate | NLL | time |\n|---|---|---|")
    for step, (nll, seconds) in zip(STEPS, relative[1:], strict=True):
        print(f"| {step[0]}, {step[1]:.4f} | {nll:.3f} | {seconds:.2f} |")


def cross_validated(hidden: tuple[int, ...], table: Table) -> float:
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    found = cross_val_score(
        ETPClassifier(hidden, random_state=0), *table, cv=folds, scoring="neg_log_loss", error_score="raise"
    )
    return float(-found.mean())


def large_table(rows: int, seed: int) -> Table:
    made = make_classification(
        rows,
        50,
        n_informative=20,
        n_redundant=10,
        n_classes=4,
        n_clusters_per_class=4,
        random_state=seed,
    )
    return Table(*made)


def choose_for_large_tables() -> None:
    table, labels = large_table(24_000, seed=7)
    print("| width | NLL | error % | CPU s |")
    print("|---|---|---|---|")
    for hidden in LARGE_WIDTHS:
        started = time.process_time()
        model = ETPClassifier(hidden, max_epochs=20, patience=None, remember=False, random_state=0)
        model.fit(table[:20_000], labels[:20_000])
        seconds, judged = time.process_time() - started, model.predict_proba(table[20_000:])
        nll = -np.log(judged[np.arange(4_000), labels[20_000:]]).mean()
        error = np.mean(judged.argmax(1) != labels[20_000:])
        print(f"| {hidden} | {nll:.3f} | {100 * error:.1f} | {seconds:.1f} |", flush=True)


def choose_batches() -> None:
    table, labels = large_table(90_000, seed=1)
    print("| batch | epochs | NLL | error % | CPU s |")
    print("|---|---|---|---|---|")
    for size in BATCHES:
        rate = 3e-3 * math.sqrt(size / 64)
        model = ETPClassifier((100,), batch_size=size, learning_rate=rate, random_state=0)
        started = time.process_time()
        model.fit(table[:80_000], labels[:80_000])
        seconds, judged = time.process_time() - started, model.predict_proba(table[80_000:])
        nll, error = scores.nll(judged, labels[80_000:]), scores.error(judged, labels[80_000:])
        print(f"| {size} | {model.n_iter_} | {nll:.4f} | {100 * error:.2f} | {seconds:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--batches", action="store_true")
    parser.add_argument("--drawn", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.drawn:
        choose_steps_of_drawn_weights()
        return
    if options.large or options.batches:
        choose_for_large_tables() if options.large else choose_batches()
        return
    print("| table |", " | ".join(map(str, WIDTHS)), "|")
    print("|---" * (1 + len(WIDTHS)) + "|")
    parts = []
    for name, table in tables():
        nlls = np.array([cross_validated(hidden, table) for hidden in WIDTHS])
        parts.append(nlls / nlls.mean())
        print(f"| {name} |", " | ".join(f"{nll:.3f}" for nll in nlls), "|", flush=True)
    means = np.mean(parts, axis=0)
    print("| in parts of the mean |", " | ".join(f"{mean:.3f}" for mean in means), "|")
    print("chosen:", WIDTHS[int(means.argmin())])


if __name__ == "__main__":
    main()
