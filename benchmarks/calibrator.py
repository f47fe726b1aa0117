"""How the calibrator chooses, beside rules that it might follow: trained nets, and made ones.

    python benchmarks/calibrator.py [--data fashion-mnist cifar-10 kmnist]

Small convolutional nets, trained on 1,000 pictures, are calibrated on 50 to 500 others and judged on 3,000;
made logits have known faults. Printed is the NLL less that of the net as it is, a mean over draws of the
held-out rows, under: a temperature alone with each prior; what `fit_calibrator` does; and the same if "as it
is" is a candidate, too. The digits that tests and README use had no say.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

import totalcal
from totalcal.calibration import calibrator
from totalcal.nets import small_convnet
from totalcal.types import PointMass
from totalcal_lab.data import load_set

SIZES, DRAWS, JUDGED = (50, 100, 200, 500), 5, 3_000
PRIORS = (0.5, 0.35, 0.25)
WORLDS = {
    "calibrated": (2.0, 1.0, 0.0),
    "nearly always right": (8.0, 1.0, 0.0),
    "too sure": (2.0, 2.0, 0.0),
    "far too sure": (2.0, 4.0, 0.0),
    "biased": (2.0, 1.0, 0.5),
    "biased and too sure": (2.0, 2.0, 1.0),
}
"""Sharpness of the right logits, and the temperature and bias that a net adds."""


def made(classes: int) -> Iterator[tuple[str, Tensor, Tensor]]:
    noise = torch.Generator().manual_seed(7)
    for name, (sharpness, temperature, bias) in WORLDS.items():
        right = sharpness * torch.randn(20_000, classes, generator=noise, dtype=torch.float64)
        labels = torch.multinomial(right.softmax(1), 1, generator=noise).squeeze(1)
        yield name, temperature * (right + bias * (-1.0) ** torch.arange(classes)), labels


def trained(data: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    images, truth = load_set(data, "test")
    rows, labels = torch.from_numpy(np.array(images)).float(), torch.from_numpy(np.array(truth)).long()
    rows = rows.mean(-1) if rows.dim() == 4 else rows
    inputs = F.avg_pool2d(rows[:, None], 2) / 128 - 1
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, others = order[:1_000], order[1_000:]
    for dropout in (0.0, 0.3):
        torch.manual_seed(0)
        net = totalcal.softmax(small_convnet(10, image=tuple(inputs.shape[1:]), dropout=dropout), 10)
        done = 0
        for epochs in (6, 20, 60):
            settings = {"epochs": epochs - done, "learning_rate": 2e-3, "batch_size": 50}
            totalcal.train(net.train(), inputs[train], labels[train], **settings)
            done = epochs
            with torch.no_grad():
                logits = net.eval().backbone(inputs[others]).double()
            yield f"{epochs} epochs, dropout {dropout}", logits, labels[others]


def gains(logits: Tensor, labels: Tensor, rows: int, draw: int) -> dict[str, float]:
    """By how much each rule lowers the NLL of rows that it has not seen: negative is better."""
    judged, order = slice(None, JUDGED), torch.randperm(len(labels) - JUDGED) + JUDGED
    known = order[:rows]

    def nll(of: torch.nn.Module) -> float:
        return float(F.cross_entropy(of(PointMass(logits[judged])).logits, labels[judged]))

    as_it_is, found = nll(calibrator.NoCalibrator()), {}
    data = calibrator._Rows(logits[known][None], labels[known], torch.ones(rows).double())
    usual = calibrator.TEMPERATURE_PRIOR
    for prior in PRIORS:
        calibrator.TEMPERATURE_PRIOR = prior
        found[f"T, s = {prior}"] = nll(calibrator._fitted_module(data, calibrator._TEMPERATURE))
    calibrator.TEMPERATURE_PRIOR = usual
    result = calibrator.fit_calibrator(logits[known], labels[known], seed=draw)
    found["the calibrator"] = nll(result.calibrator)
    is_clear = result.gain > calibrator.DOUBT * result.gain_error
    found["or as it is"] = found["the calibrator"] if is_clear else as_it_is
    return {rule: value - as_it_is for rule, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", nargs="*", default=["fashion-mnist", "cifar-10", "kmnist"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    sources = [(f"made, {classes} classes", made(classes)) for classes in (2, 10, 100)]
    sources += [(data, trained(data)) for data in options.data]
    everything = defaultdict(list)
    for source, nets in sources:
        for name, logits, labels in nets:
            for rows in SIZES:
                torch.manual_seed(rows)
                found = [gains(logits, labels, rows, draw) for draw in range(DRAWS)]
                kind = "made" if source.startswith("made") else "trained"
                everything[kind, rows] += found
                show(f"{source}: {name}, {rows} rows", found)
    for (kind, rows), found in everything.items():
        show(f"all {kind}, {rows} rows", found)


def show(title: str, found: list[dict[str, float]]) -> None:
    means = {rule: np.mean([each[rule] for each in found]) for rule in found[0]}
    print(f"{title}:", ", ".join(f"{rule} {value:+.4f}" for rule, value in means.items()), flush=True)


if __name__ == "__main__":
    main()
