"""Planted wrong labels: of the first k rows of a queue, how many are wrong, where k of all are.

    pip install cleanlab
    python benchmarks/audit.py [--seeds 3] [--data digits] [--data fashion-mnist]

A tenth of the labels are wrong, of three kinds: any other class; the class that theirs is most often taken
for; the second guess of a classifier for rows that it is not sure of. A net is trained on these labels.
`totalcal` is our audit, each row judged by all others in the features of the memory. `cleanlab, same` orders
by the same probabilities (`get_label_quality_scores`), `net` by those of the net, which has seen
the labels, and `cleanlab` by its own way: logistic regression, fitted five times to four fifths of the rows.
Nothing was chosen on these figures.
"""

import argparse
from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import totalcal
from totalcal.nets import mlp, small_convnet
from totalcal_lab.data import load_set

SHARE = 0.1
ROWS = {"digits": (1200, 597), "fashion-mnist": (6000, 2000)}  # audited, held out
EPOCHS = {"digits": 30, "fashion-mnist": 8}


def rows_of(name: str, seed: int) -> tuple[torch.Tensor, np.ndarray]:
    if name == "digits":
        table, labels = load_digits(return_X_y=True)
        inputs = torch.tensor((table - 8) / 6, dtype=torch.float32)
    else:
        images, labels = load_set(name, "train")
        inputs = torch.tensor(images)[:, None] / 128 - 1
    order = np.random.default_rng(seed).permutation(len(labels))[: sum(ROWS[name])]
    return inputs[order], np.array(labels)[order]


def flat(inputs: torch.Tensor) -> np.ndarray:
    return inputs.flatten(1).numpy()


def regression() -> object:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=200, C=0.01))


def planted(kind: str, inputs: torch.Tensor, labels: np.ndarray, noise: np.random.Generator) -> np.ndarray:
    """Labels a tenth of which are wrong."""
    count, found = int(SHARE * len(labels)), labels.copy()
    chosen = noise.permutation(len(labels))[:count]
    if kind == "any class":
        found[chosen] = (labels[chosen] + noise.integers(1, 10, count)) % 10
        return found
    guesses = cross_val_predict(regression(), flat(inputs), labels, cv=5, method="predict_proba")
    guesses[np.arange(len(labels)), labels] = -1
    if kind == "look-alikes":
        totals = np.array([guesses[labels == each].sum(0) for each in range(10)])
        found[chosen] = totals.argmax(1)[labels[chosen]]
        return found
    chosen = np.argsort(-guesses.max(1))[: 2 * count]  # half of those that are easily taken for another
    chosen = noise.permutation(chosen)[:count]
    found[chosen] = guesses.argmax(1)[chosen]
    return found


def by_cleanlab(labels: np.ndarray, probabilities: np.ndarray) -> list[int]:
    from cleanlab.rank import get_label_quality_scores

    return np.argsort(get_label_quality_scores(labels, probabilities), kind="stable").tolist()


def precision(order: list[int], is_wrong: np.ndarray) -> float:
    return float(is_wrong[order[: is_wrong.sum()]].sum() / is_wrong.sum())


def judged(name: str, kind: str, seed: int) -> dict[str, float]:
    inputs, truth = rows_of(name, seed)
    labels = planted(kind, inputs, truth, np.random.default_rng(seed))
    is_wrong = (labels != truth)[: ROWS[name][0]]
    train, held_out = (
        (part, torch.tensor(known))
        for part, known in zip(inputs.split(ROWS[name]), np.split(labels, [ROWS[name][0]]), strict=True)
    )
    torch.manual_seed(seed)
    net = mlp(64, 10) if name == "digits" else small_convnet(10, (1, 28, 28))
    model = totalcal.softmax(net, num_classes=10)
    totalcal.train(model, *train, epochs=EPOCHS[name], learning_rate=3e-3, batch_size=64)
    model = totalcal.calibrate(model, train, held_out, progress=False)
    queue = totalcal.audit(model, *train)
    found = {"totalcal": precision([each.row for each in queue.findings], is_wrong)}
    ways: dict[str, Callable[[], np.ndarray]] = {
        "cleanlab, same": lambda: queue.probabilities,
        "net": lambda: model.predict(train[0]).probabilities.numpy().astype(float),
        "cleanlab": lambda: cross_val_predict(
            regression(), flat(train[0]), train[1].numpy(), cv=5, method="predict_proba"
        ),
    }
    for way, probabilities in ways.items():
        found[way] = precision(by_cleanlab(train[1].numpy(), probabilities()), is_wrong)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", action="append", choices=list(ROWS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.data or ROWS:
        for kind in ("any class", "look-alikes", "hard rows"):
            runs = [judged(name, kind, seed) for seed in range(options.seeds)]
            told = [
                f"{way} {np.mean([run[way] for run in runs]):.1%} ± {np.std([run[way] for run in runs]):.1%}"
                for way in runs[0]
            ]
            print(f"{name}, {kind}: {', '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
