"""Predictions against the plain net's: LeNet5, 28×28, one thread, 128 images and one.

    python benchmarks/predictions.py [--rounds 40]

128 images: throughput relative to the net's softmax, with probabilities, entropy and the three terms of the
decomposition. One image: time relative to the net's, for the probabilities, or the familiarity of a model
that remembers. `plain` and the two after it are models as `calibrate` and `load` give them. All take turns in
one process; a ratio is the median over the rounds, and one image counts by the fastest of four runs.
"""

import statistics
from collections.abc import Callable

import torch
from interleaved import arguments, measured, ratios, spread, table
from torch import Tensor, nn

from totalcal import Model, bnn, etp, remember, softmax
from totalcal.calibration.calibrator import TemperatureAndBias
from totalcal.models.process import TuringProcess
from totalcal.types import Draws
from totalcal_lab.backbones import lenet5

BATCH = 128
MANY = {"plain": 0.97, "temperature": 0.97, "etp by moments": 0.8, "bnn by moments": 0.8}
ONE = {"plain": 1.25, "temperature": 1.25, "memory": 2.0, "etp by moments": 2.5, "etp, ten draws": 2.5}


def plain_net(net: nn.Module, inputs: Tensor) -> Callable[[], object]:
    @torch.no_grad()
    def predict() -> Tensor:
        return net(inputs).softmax(-1)  # type: ignore[no-any-return]

    return predict


def prediction(
    model: TuringProcess | Model, inputs: Tensor, draws: Draws, whole: bool
) -> Callable[[], object]:
    def predict() -> object:
        found = model.predict(inputs, draws=draws)
        if whole:
            return found.probabilities, found.entropy, found.decompose()
        return found.probabilities if found.domain is None else (found.probabilities, found.familiarity)

    return predict


def models() -> dict[str, tuple[TuringProcess | Model, Draws]]:
    net = lenet5(10)
    tempered, remembering = softmax(net, 10), softmax(net, 10)
    tempered.calibrator = TemperatureAndBias(10)
    rows, labels = torch.randn(1200, 1, 28, 28), torch.arange(1200) % 10
    remember(remembering, (rows[:1000], labels[:1000]), (rows[1000:], labels[1000:]), progress=False)
    drawing = etp(net, 10)
    return {
        "plain": (Model(softmax(net, 10)), "auto"),
        "temperature": (Model(tempered), "auto"),
        "memory": (Model(remembering), "auto"),
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
            process = model.process if isinstance(model, Model) else model
            process.to(memory_format=layout).eval()  # type: ignore[call-overload]
            candidates[name] = prediction(model, inputs, draws, whole=rows > 1)
        times = measured(candidates, options.rounds, fastest=rows == 1)
        print(f"\n{rows} image{'s' * (rows > 1)}\n{table(times, baseline='net')}")
        for name, aim in aims.items():
            of, to, words = ("net", name, "throughput ≥") if rows > 1 else (name, "net", "time ≤")
            found = ratios(times, of, to)  # of throughputs, the other way round than of times
            is_met = statistics.median(found) >= aim if rows > 1 else statistics.median(found) <= aim
            print(f"{name}: {words} {aim} of the net's: {spread(found)}, {'met' if is_met else 'MISSED'}")


if __name__ == "__main__":
    main()
