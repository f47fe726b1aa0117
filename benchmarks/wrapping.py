"""A trained net before and after `wrap`, on data that had no say in any choice.

    python benchmarks/wrapping.py [--mnist] [--runs RUNS]

Digits are split once: nets and their wrapping learn from the development half, on which the settings were
chosen too (`wrapping_choice.py`); the other half, and every other letter as an OOD input, only judge. Last
that half alone: 150 rows for a net that learns them by heart, 374 for its wrapping, 375 judge, twelve
divisions; a design settled on the development half, where it tells a gain from noise. `--mnist` takes
its test set: 500 rows for a LeNet5, 398 for its wrapping, the others judge; OOD inputs are letters and
KMNIST. `--runs` adds the finished softmax nets of a folder of `totalcal-lab run fashion`: wrapped on a run's
held-out rows, judged on the test set; OOD inputs are MNIST and KMNIST. `temperature` is the baseline with one
number.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor, nn

from totalcal import Batch, Predictive, fit, scores, wrap
from totalcal.baselines import temperature_scaled
from totalcal.nets import small_convnet
from totalcal.scores import from_module
from totalcal.training.options import Optimisation
from totalcal.types import Predictor
from totalcal_lab.backbones import lenet5
from totalcal_lab.data.loading import load_set
from totalcal_lab.data.synthetic import letters
from totalcal_lab.grid.building import load_data, trained_process
from totalcal_lab.grid.configuration import RunConfig
from totalcal_lab.records.folders import RunFolder

SEEDS = (0, 1, 2)
EPOCHS = (60, 200)  # of the nets: stopped early, and sure of every training row
TRAIN = 500  # rows of the development half for the net; the others are for its wrapping
HALF = 898
BY_HEART, DIVISIONS = 150, range(4)  # rows of the other half for a net, divisions of it a seed
BLOCK = 1000  # rows that pass a net at once


class Aspects(NamedTuple):
    error: float
    nll: float
    ece: float
    auroc: float


class Judged(NamedTuple):
    """Predictions of rows with their labels, and of OOD inputs."""

    rows: Predictive
    labels: Tensor
    ood_inputs: Predictive


def halves() -> tuple[Batch, Batch]:
    """The 1,797 digits, split once and for all: development and test."""
    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    inputs = torch.from_numpy(images[order].reshape(-1, 1, 8, 8) / 8 - 1).float()
    labels = torch.from_numpy(digits[order])
    return Batch(inputs[:HALF], labels[:HALF]), Batch(inputs[HALF:], labels[HALF:])


def ood_inputs(part: int) -> Tensor:
    """Every other letter: part 0 for choices, part 1 for tests."""
    images, number = letters(size=8, count=2000, seed=part)
    return torch.from_numpy(images[number % 2 == part] / 127.5 - 1).float().unsqueeze(1)


def trained_net(data: Batch, seed: int, epochs: int) -> nn.Module:
    """What a user brings."""
    torch.manual_seed(seed)
    net = small_convnet(10) if data.inputs.shape[-1] == 8 else lenet5(10)
    optimizer = torch.optim.Adam(net.parameters(), 2e-3, fused=True)
    for _ in range(epochs):
        for rows in torch.randperm(len(data.labels)).split(100):
            loss = nn.functional.cross_entropy(net(data.inputs[rows]), data.labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net.eval()


def split(data: Batch, rows: int) -> tuple[Batch, Batch]:
    return Batch(data.inputs[:rows], data.labels[:rows]), Batch(data.inputs[rows:], data.labels[rows:])


def shuffled(data: Batch, seed: int) -> Batch:
    order = torch.from_numpy(np.random.default_rng(100 + seed).permutation(len(data.labels)))
    return Batch(data.inputs[order], data.labels[order])


def aspects(judged: Judged) -> Aspects:
    probabilities, labels = judged.rows.probabilities, judged.labels
    return Aspects(
        scores.error(probabilities, labels),
        scores.nll(probabilities, labels),
        float(scores.ece(probabilities, labels)),
        scores.auroc(judged.rows.entropy, judged.ood_inputs.entropy),
    )


class Trial(NamedTuple):
    """A trained net, rows to wrap it with, rows to judge it on, and OOD sets."""

    net: nn.Module
    wrap: Batch
    test: Batch
    ood_inputs: Mapping[str, Tensor]
    seed: int


def wrapped(trial: Trial) -> Predictor:
    """As docs/tutorial_trained_net.md does it."""
    torch.manual_seed(trial.seed)
    model = wrap(trial.net, num_classes=10)
    fit(
        model,
        (trial.wrap.inputs, trial.wrap.labels),
        epochs=30,
        batch_size=64,
        seed=trial.seed,
        optimisation=Optimisation(learning_rate=1e-2),
        freeze_backbone=True,
        progress=False,
    )
    return model


def answers(predictor: Predictor, inputs: Tensor) -> Predictive:
    return Predictive.joined([predictor.predict(rows) for rows in inputs.split(BLOCK)])


def judged(predictor: Predictor, trial: Trial) -> list[float]:
    """Error, NLL, ECE, and the AUROC against every OOD set."""
    rows = answers(predictor, trial.test.inputs)
    found = [
        aspects(Judged(rows, trial.test.labels, answers(predictor, inputs)))
        for inputs in trial.ood_inputs.values()
    ]
    return [*found[0][:-1], *(each.auroc for each in found)]


def digits_trials(epochs: int) -> Iterator[tuple[Trial, Trial]]:
    """Wrapped on rows of the development half and judged on all others; both on rows of the test half."""
    development, test = halves()
    for seed in SEEDS:
        train, rest = split(shuffled(development, seed), TRAIN)
        net = trained_net(train, seed, epochs)
        first = Trial(net, rest, test, {"letters": ood_inputs(1)}, seed)
        wrap_rows, judging_rows = split(shuffled(test, seed), len(rest.labels))
        yield first, first._replace(wrap=wrap_rows, test=judging_rows)


def by_heart_trials() -> Iterator[Trial]:
    """Nets that are too sure, and as many held-out rows as judge: the test half divided anew each time."""
    test = halves()[1]
    for seed, division in product(SEEDS, DIVISIONS):
        order = np.random.default_rng([seed, division]).permutation(len(test.labels))
        train, rest = split(Batch(test.inputs[order], test.labels[order]), BY_HEART)
        wrap_rows, judging_rows = split(rest, len(rest.labels) // 2)
        yield Trial(
            trained_net(train, seed, EPOCHS[-1]), wrap_rows, judging_rows, {"letters": ood_inputs(1)}, seed
        )


def mnist_trials(epochs: int) -> Iterator[Trial]:
    """Digits of a set that had no say in anything, enough of them to tell small gains."""
    images, labels = load_set("mnist")
    whole = Batch(pixels(images), torch.from_numpy(labels).long())
    ood = {"letters": pixels(letters(size=28, count=2000)[0]), "KMNIST": pixels(load_set("kmnist")[0])}
    for seed in SEEDS:
        train, rest = split(shuffled(whole, seed), TRAIN)
        wrap_rows, judging_rows = split(rest, HALF - TRAIN)
        yield Trial(trained_net(train, seed, epochs), wrap_rows, judging_rows, ood, seed)


def pixels(images: NDArray[np.uint8]) -> Tensor:
    grey = images.reshape(len(images), 1, *images.shape[1:3])
    return torch.from_numpy(grey / 127.5 - 1).float()


def fashion_trials(runs: Path) -> Iterator[Trial]:
    """The finished plain nets of a folder of runs."""
    for folder in sorted(map(RunFolder, runs.iterdir()), key=lambda folder: folder.path):
        if not folder.done_file.exists() or folder.config["model"] != "softmax":
            continue
        config = RunConfig.from_json(folder.config)
        data = load_data(config, panel=("mnist", "kmnist"))
        ood = {name: each.whole().inputs for name, each in data.ood.items()}
        net = trained_process(folder).backbone
        yield Trial(net, data.held_out.whole(), data.test.whole(), ood, config.seed)


METHODS: Mapping[str, Callable[[Trial], Predictor]] = {
    "the net": lambda trial: from_module(trial.net, "logits"),
    "temperature": lambda trial: temperature_scaled(from_module(trial.net, "logits"), trial.wrap),
    "wrapped": wrapped,
}


def show(name: str, trials: Sequence[Trial]) -> None:
    """Means over the trials, and in how many of them the wrapped net is better than the net."""
    columns = ["error", "NLL", "ECE", *(f"AUROC, {each}" for each in trials[0].ood_inputs)]
    found = {
        method: np.array([judged(make(trial), trial) for trial in trials]) for method, make in METHODS.items()
    }
    print(f"\n| {name} |", " | ".join(columns), "|")
    print("|---" * (1 + len(columns)) + "|")
    for method, values in found.items():
        print(f"| {method} |", " | ".join(f"{mean:.4f}" for mean in values.mean(axis=0)), "|")
    gains = found["wrapped"] - found["the net"]
    wins = (np.where(np.arange(len(columns)) < 3, -gains, gains) > 0).sum(axis=0)
    print(f"| better in, of {len(trials)} |", " | ".join(map(str, wins)), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--mnist", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for epochs in EPOCHS:
        across, within = zip(*digits_trials(epochs), strict=True)
        show(f"digits, {epochs} epochs, wrapped on development rows", across)
        show(f"digits, {epochs} epochs, wrapped on test rows", within)
    show("digits, 150 rows by heart", list(by_heart_trials()))
    if options.mnist:
        for epochs in EPOCHS:
            show(f"MNIST, {epochs} epochs", list(mnist_trials(epochs)))
    if options.runs is not None:
        show("Fashion-MNIST", list(fashion_trials(options.runs)))


if __name__ == "__main__":
    main()
