"""The estimators beside scikit-learn's multi-layer perceptron on a large table, all in one run.

    python benchmarks/large_table.py [--rows 100000] [--columns 50]

Each with its defaults, but all with the perceptron's width of 100; four fifths of the rows train. CPU seconds
on one thread, and the ratio to the perceptron's.
"""

import argparse
import time

import torch
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from totalcal import ETPClassifier, SoftmaxClassifier, scores

METHODS = {
    "MLPClassifier": lambda: make_pipeline(StandardScaler(), MLPClassifier(random_state=0)),
    "SoftmaxClassifier": lambda: SoftmaxClassifier((100,), random_state=0),
    "ETPClassifier": lambda: ETPClassifier((100,), random_state=0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=50)
    options = parser.parse_args()
    torch.set_num_threads(1)
    table, labels = make_classification(
        options.rows,
        options.columns,
        n_informative=20,
        n_redundant=10,
        n_classes=4,
        n_clusters_per_class=4,
        random_state=0,
    )
    train, test, train_labels, truth = train_test_split(table, labels, test_size=0.2, random_state=0)
    print("| method | epochs | fit CPU s | to MLPClassifier | error % | NLL | ECE % |")
    print("|---|---|---|---|---|---|---|")
    base = None
    for name, make in METHODS.items():
        started = time.process_time()
        model = make().fit(train, train_labels)
        seconds = time.process_time() - started
        base = base or seconds
        probabilities = model.predict_proba(test)
        epochs = (model[-1] if name == "MLPClassifier" else model).n_iter_
        print(
            f"| {name} | {epochs} | {seconds:.1f} | {seconds / base:.2f} "
            f"| {100 * scores.error(probabilities, truth):.2f} | {scores.nll(probabilities, truth):.3f} "
            f"| {100 * float(scores.ece(probabilities, truth)):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
