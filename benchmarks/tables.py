"""ETPClassifier beside scikit-learn's own classifiers on tables, all in one run.

    python benchmarks/tables.py [--splits 3]

Two thirds of a table train, one third tests; all methods see the same splits, each with its defaults. Error,
NLL and ECE (15 bins) in domain; AUROC of the entropy for telling test rows from the same rows moved by three
standard deviations, up or down at random in each column; CPU seconds on one thread. The generated table has
Gaussian classes, so that the true probabilities are known: `truth` is what no method can beat on average.
"""

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import entropy, multivariate_normal
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from totalcal import ETPClassifier, scores

CENTRES = np.concatenate([1.2 * np.eye(3), np.zeros((3, 7))], axis=1)  # three classes in ten columns
SHIFT = 3.0


class Table(NamedTuple):
    rows: np.ndarray
    labels: np.ndarray


class Result(NamedTuple):
    error: float
    nll: float
    ece: float
    auroc: float
    fit_seconds: float
    predict_seconds: float


METHODS: dict[str, Callable[[int], ClassifierMixin]] = {
    "LogisticRegression": lambda seed: make_pipeline(StandardScaler(), LogisticRegression()),
    "MLPClassifier": lambda seed: make_pipeline(StandardScaler(), MLPClassifier(random_state=seed)),
    "HistGradientBoosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "ETPClassifier": lambda seed: ETPClassifier(random_state=seed, remember=False),
    "truth": lambda seed: Truth(),
}


class Truth:
    """The posterior of the generated table."""

    classes_ = np.arange(3)

    def fit(self, rows: np.ndarray, labels: np.ndarray) -> "Truth":
        return self

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        joint = np.stack([multivariate_normal.pdf(rows, centre) for centre in CENTRES], axis=1)
        return joint / joint.sum(1, keepdims=True)


def generated(seed: int = 0, rows: int = 1500) -> Table:
    generator = np.random.default_rng(seed)
    labels = generator.integers(3, size=rows)
    return Table(CENTRES[labels] + generator.normal(size=(rows, 10)), labels)


def tables() -> Iterator[tuple[str, Table]]:
    yield "breast cancer", Table(*load_breast_cancer(return_X_y=True))
    yield "wine", Table(*load_wine(return_X_y=True))
    yield "digits", Table(*load_digits(return_X_y=True))
    yield "generated", generated()


def shifted(rows: np.ndarray, seed: int) -> np.ndarray:
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=rows.shape)
    return rows + SHIFT * rows.std(axis=0) * signs


def judged(make: Callable[[int], ClassifierMixin], table: Table, seed: int) -> Result:
    train, test, labels, truth = train_test_split(
        *table, test_size=1 / 3, stratify=table.labels, random_state=seed
    )
    started = time.process_time()
    model = make(seed).fit(train, labels)
    fitted = time.process_time()
    probabilities = model.predict_proba(test)
    predicted = time.process_time()
    ood = model.predict_proba(shifted(test, seed))
    return Result(
        scores.error(probabilities, truth),
        scores.nll(np.clip(probabilities, 1e-12, 1), truth),  # boosting may say 0
        float(scores.ece(probabilities, truth)),
        scores.auroc(entropy(probabilities, axis=1), entropy(ood, axis=1)),
        fitted - started,
        predicted - fitted,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--splits", type=int, default=3)
    splits = parser.parse_args().splits
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of convergence: defaults are what is compared
    print("| table | method | error % | NLL | ECE % | AUROC % | fit s | predict ms | NLL / MLP's |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, table in tables():
        results: dict[str, list[Result]] = defaultdict(list)
        for seed in range(splits):
            for method, make in METHODS.items():
                if method != "truth" or name == "generated":
                    results[method].append(judged(make, table, seed))
        base = np.mean([result.nll for result in results["MLPClassifier"]])
        for method, found in results.items():
            error, nll, ece, auroc, fit, predict = np.mean(found, axis=0)
            print(
                f"| {name} | {method} | {100 * error:.2f} | {nll:.3f} | {100 * ece:.2f} | {100 * auroc:.1f} "
                f"| {fit:.2f} | {1000 * predict:.1f} | {nll / base:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
