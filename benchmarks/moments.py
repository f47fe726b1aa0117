"""Predictions by moments and by ten draws, each against a thousand draws of the same trained net.

    python benchmarks/moments.py [RUN …] [--rows 10000]
    python benchmarks/moments.py --tables

A RUN is the folder of a finished run (`totalcal-lab run fashion --models bnn,etp`). Without one, small nets
are trained on the digits here, or estimators on tables of scikit-learn, with draws that all rows share, as in
files: ten draws of five seeds. OOD AUROC is that of the entropy, for each set of the task's panel. Ranks are
Spearman's, of the entropy and the three terms, over test and OOD rows together; |Δp| is the mean over rows of
the largest difference of a probability.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from torch import Tensor

from totalcal import BNNClassifier, ETPClassifier, bnn, etp, fit
from totalcal.models.process import TuringProcess
from totalcal.nets import small_convnet
from totalcal.types import Draws, Predictive
from totalcal_lab.data import task
from totalcal_lab.data.arrays import ArrayData

BLOCK, MANY, DIGITS_EPOCHS = 50, 1000, 60
TABLES = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}


def judged(model: TuringProcess, test: Sequence[Tensor], ood: Mapping[str, Tensor]) -> None:
    """One table for a model."""
    labels = test[1]
    sets = {"test": test[0], **ood}
    ways: dict[str, Draws] = {"1,000 draws": MANY, "10 draws": 10, "10 draws again": 10, "100 draws": 100}
    ways["moments"] = "moments"
    names = list(ood)
    head = ["", "NLL", "ECE, %", *(f"AUROC {name}, %" for name in names)]
    head += [
        "|Δp|",
        *(f"rank of {term}" for term in ("entropy", "reducible", "irreducible", "data")),
        "Σ reducible",
    ]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    truth = None
    for way, draws in ways.items():
        found = {name: summary(model, rows, draws) for name, rows in sets.items()}
        joined = [np.concatenate([parts[i] for parts in found.values()]) for i in range(5)]
        truth = joined if truth is None else truth
        scores = [f"{nll(found['test'][0], labels):.4f}", f"{100 * ece(found['test'][0], labels):.2f}"]
        scores += [f"{100 * auroc(found['test'][1], found[name][1]):.2f}" for name in names]
        scores.append(f"{gap(joined[0], truth[0]):.4f}")
        scores += [rank(joined[i], truth[i]) for i in range(1, 5)]
        scores.append(f"{joined[2].sum() / max(truth[2].sum(), 1e-12):.3f}")
        print("| " + " | ".join([way, *scores]) + " |", flush=True)


def summary(model: TuringProcess, rows: Tensor, draws: Draws) -> list[np.ndarray]:
    """Probabilities, entropy and the three terms."""
    blocks: list[list[Tensor]] = []
    for block in rows.split(BLOCK):
        found: Predictive = model.predict(block, draws=draws)
        blocks.append([found.probabilities, found.entropy, *found.decompose().summed()])
    return [torch.cat(column).numpy() for column in zip(*blocks, strict=True)]


def nll(probabilities: np.ndarray, labels: Tensor) -> float:
    return float(-np.log(probabilities[np.arange(len(labels)), labels.numpy()]).mean())


def ece(probabilities: np.ndarray, labels: Tensor, bins: int = 15) -> float:
    confidence, right = probabilities.max(1), probabilities.argmax(1) == labels.numpy()
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = np.bincount(place, confidence - right, minlength=bins)
    return float(np.abs(gaps).sum() / len(labels))


def auroc(in_distribution: np.ndarray, ood: np.ndarray) -> float:
    truth = np.repeat([0, 1], [len(in_distribution), len(ood)])
    return float(roc_auc_score(truth, np.concatenate([in_distribution, ood])))


def rank(found: np.ndarray, truth: np.ndarray) -> str:
    return "" if np.ptp(truth) == 0 else f"{spearmanr(found, truth)[0]:.4f}"


def whole(data: ArrayData, rows: int) -> tuple[Tensor, Tensor]:
    inputs, labels = data.take(rows, seed=0).whole()
    return inputs, labels


def of_run(folder: Path, rows: int) -> None:
    from totalcal_lab.grid.building import trained_process
    from totalcal_lab.grid.configuration import RunConfig
    from totalcal_lab.records.folders import RunFolder

    run = RunFolder(folder)
    config = RunConfig.from_json(run.config)
    data = task(config.task).load()
    print(f"\n{config.task}, {config.model}, seed {config.seed}, {config.epochs} epochs\n")
    panel = {name: whole(inputs, rows)[0] for name, inputs in data.ood.items()}
    judged(trained_process(run), whole(data.test, rows), panel)


def of_digits(rows: int) -> None:
    data = task("digits").load()
    for name, make, layers in (
        ("bnn", bnn, "linear"),
        ("etp", etp, "linear"),
        ("bnn, all layers", bnn, "all"),
    ):
        torch.manual_seed(0)
        model = make(small_convnet(10), 10, layers=layers)
        fit(model, data.train, epochs=DIGITS_EPOCHS, progress=False)
        print(f"\ndigits, {name}, {DIGITS_EPOCHS} epochs\n")
        panel = {each: whole(inputs, rows)[0] for each, inputs in data.ood.items()}
        judged(model.eval(), whole(data.test, rows), panel)


def of_tables() -> None:
    head = ["table", "model", "|Δp|, 10 draws", "|Δp|, moments", "rank of reducible, 10 draws"]
    head += ["rank of reducible, moments", "Σ reducible, 10 draws", "Σ reducible, moments"]
    head += ["CPU time, moments / 10 draws"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for table, load in TABLES.items():
        train, test, labels, _ = train_test_split(*load(return_X_y=True), test_size=0.5, random_state=0)
        for estimator in (BNNClassifier, ETPClassifier):
            model = estimator(random_state=0).fit(train, labels)
            process, rows = model.model_, torch.as_tensor(model.preprocessing_(test, torch.float64))
            truth, _ = timed(process, rows, MANY, 0)
            drawn = [timed(process, rows, 10, seed) for seed in range(1, 6)]
            by_moments = [timed(process, rows, "moments", 0) for _ in range(5)]
            cells = [table, estimator.__name__]
            cells += [
                f"{np.mean([gap(found[0], truth[0]) for found, _ in ways]):.4f}"
                for ways in (drawn, by_moments)
            ]
            cells += [
                f"{np.mean([spearmanr(found[2], truth[2])[0] for found, _ in ways]):.4f}"
                for ways in (drawn, by_moments)
            ]
            sums = [found[2].sum() / truth[2].sum() for found, _ in drawn]
            cells += [
                f"{min(sums):.2f} to {max(sums):.2f}",
                f"{by_moments[0][0][2].sum() / truth[2].sum():.2f}",
            ]
            cells.append(f"{np.median([a[1] / b[1] for a, b in zip(by_moments, drawn, strict=True)]):.2f}")
            print("| " + " | ".join(cells) + " |", flush=True)


def timed(process: TuringProcess, rows: Tensor, draws: Draws, seed: int) -> tuple[list[np.ndarray], float]:
    """Probabilities, entropy and terms, with draws that all rows share, and the CPU seconds they took."""
    start = time.process_time()
    found = process.predict(rows, draws=draws, seed=seed)
    parts = [found.probabilities, found.entropy, *found.decompose().summed()]
    return [part.numpy() for part in parts], time.process_time() - start


def gap(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(found - truth).max(1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for run in options.runs:
        of_run(run, options.rows)
    if options.tables:
        of_tables()
    elif not options.runs:
        of_digits(options.rows)


if __name__ == "__main__":
    main()
