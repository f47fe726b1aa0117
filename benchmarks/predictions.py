"""Predictions against the plain net's: LeNet5, 28×28, one thread, 128 images and one.

    python benchmarks/predictions.py [--rounds 40]

128 images: throughput relative to the net's softmax, with probabilities, entropy and the three terms of the
decomposition. One image: time relative to the net's, for the probabilities, or the familiarity of a model
that remembers. All take turns in one process; a ratio is the median over the rounds.
"""

import statistics
from collections.abc import Callable

import torch
from interleaved import arguments, measured, ratios, spread, table
from torch import Tensor, nn

from totalcal import bnn, etp, remember, softmax
from totalcal.calibration.calibrator import TemperatureAndBias
from totalcal.models.process import TuringProcess
from totalcal.types import Draws
from totalcal_lab.backbones import lenet5

BATCH = 128
MANY = {"softmax": 0.97, "temperature": 0.97, "etp by moments": 0.8, "bnn by moments": 0.8}
ONE = {"softmax": 1.25, "temperature": 1.25, "memory": 2.0, "etp by moments": 2.5, "etp, ten draws": 2.5}


def plain_net(net: nn.Module, inputs: Tensor) -> Callable[[], object]:
    @torch.no_grad()
    def predict() -> Tensor:
        return net(inputs).softmax(-1)  # type: ignore[no-any-return]

    return predict


def prediction(model: TuringProcess, inputs: Tensor, draws: Draws, whole: bool) -> Callable[[], object]:
    def predict() -> object:
        found = model.predict(inputs, draws=draws)
        if whole:
            return found.probabilities, found.entropy, found.decompose()
        return found.probabilities if found.domain is None else (found.probabilities, found.familiarity)

    return predict


def models() -> dict[str, tuple[TuringProcess, Draws]]:
    net = lenet5(10)
    tempered, remembering = softmax(net, 10), softmax(net, 10)
    tempered.calibrator = TemperatureAndBias(10)
    rows, labels = torch.randn(1200, 1, 28, 28), torch.arange(1200) % 10
    remember(remembering, (rows[:1000], labels[:1000]), (rows[1000:], labels[1000:]), progress=False)
    drawing = etp(net, 10)
    return {
        "softmax": (softmax(net, 10), 0),
        "temperature": (tempered, 0),
        "memory": (remembering, 0),
        "etp, point weights": (etp(net, 10, layers="none"), 10),
        "etp, ten draws": (drawing, 10),
        "etp by moments": (drawing, "moments"),
        "bnn, ten draws": (bnn(net, 10), 10),
        "bnn by moments": (bnn(net, 10), "moments"),
    }


def main() -> None:
    options = arguments(__doc__, rounds=40)
    known = models()
    for rows, aims in ((BATCH, MANY), (1, ONE)):
        layout = torch.channels_last if rows > 1 else torch.contiguous_format
        inputs = torch.randn(rows, 1, 28, 28).to(memory_format=layout)
        net = lenet5(10).to(memory_format=layout).eval()  # type: ignore[call-overload]
        candidates = {"net": plain_net(net, inputs)}
        for name, (model, draws) in known.items():
            model.to(memory_format=layout).eval()  # type: ignore[call-overload]
            candidates[name] = prediction(model, inputs, draws, whole=rows > 1)
        times = measured(candidates, options.rounds)
        print(f"\n{rows} image{'s' * (rows > 1)}\n{table(times, baseline='net')}")
        for name, aim in aims.items():
            found = ratios(times, "net", name)  # the net's time over the other's
            is_met = statistics.median(found) >= (aim if rows > 1 else 1 / aim)
            asked = f"throughput ≥ {aim} of the net's" if rows > 1 else f"at most {aim} times the net's time"
            print(
                f"{name}: the net takes {spread(found)} of its time; {asked}: {'met' if is_met else 'MISSED'}"
            )


if __name__ == "__main__":
    main()
