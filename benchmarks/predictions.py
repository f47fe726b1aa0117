"""The throughput of predictions against the plain net's: LeNet5, 28×28, one thread.

    python benchmarks/predictions.py [--rounds 40]

A prediction is 10 draws of weights and memory for 128 images, or their moments, with probabilities, entropy
and the three terms of the decomposition; the plain net gives a softmax. All take turns in one process; a
ratio is the median over the rounds.
"""

import statistics
from collections.abc import Callable

import torch
from interleaved import arguments, measured, ratios, spread, table
from torch import Tensor

from totalcal import bnn, edl, etp, softmax
from totalcal.models.process import TuringProcess
from totalcal.types import Draws
from totalcal_lab.backbones import lenet5

BATCH, DRAWS = 128, 10
AIMS = {"etp point": 0.85, "etp": 0.6, "bnn": 0.6, "bnn by moments": 0.85, "etp by moments": 0.85}


def plain_net(inputs: Tensor) -> Callable[[], object]:
    net = lenet5(10).to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]

    @torch.no_grad()
    def predict() -> Tensor:
        return net(inputs).softmax(-1)  # type: ignore[no-any-return]

    return predict


def full_prediction(model: TuringProcess, inputs: Tensor, draws: Draws = DRAWS) -> Callable[[], object]:
    model.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]

    def predict() -> tuple[object, ...]:
        prediction = model.predict(inputs, draws=draws)
        return prediction.probabilities, prediction.entropy, prediction.decompose()

    return predict


def main() -> None:
    options = arguments(__doc__, rounds=40)
    inputs = torch.randn(BATCH, 1, 28, 28).to(memory_format=torch.channels_last)
    models = {
        "softmax": softmax(lenet5(10), 10),
        "edl": edl(lenet5(10), 10),
        "etp point": etp(lenet5(10), 10, layers="none"),
        "bnn": bnn(lenet5(10), 10),
        "etp": etp(lenet5(10), 10),
    }
    candidates = {"net": plain_net(inputs)}
    candidates |= {name: full_prediction(model, inputs) for name, model in models.items()}
    candidates |= {
        f"{name} by moments": full_prediction(models[name], inputs, "moments")
        for name in ("etp point", "bnn", "etp")
    }
    times = measured(candidates, options.rounds)
    print(table(times, baseline="net"))
    for name, aim in AIMS.items():
        found = ratios(times, "net", name)
        verdict = "met" if statistics.median(found) >= aim else "MISSED"
        print(f"\nthroughput of {name} / net: {spread(found)}, aim ≥ {aim}: {verdict}")


if __name__ == "__main__":
    main()
