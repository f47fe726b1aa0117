"""What reading costs: an epoch of Fashion-MNIST batches next to the training it feeds, in one run.

    python benchmarks/reading.py [--batches 100] [--rounds 3]

Reading and training take turns in one process on one thread, so that a busy machine slows both alike. What is
trained is LeNet5 with Adam at the paper's batch of 128: the plain net, the cheapest of our models.
"""

import argparse
import itertools
import time
from collections.abc import Iterable
from statistics import median

import torch
from interleaved import spread
from torch.nn import functional as F

from totalcal.types import Batch
from totalcal_lab.backbones import lenet5
from totalcal_lab.data.arrays import ArrayData, Scaling
from totalcal_lab.data.loading import load_with_statistics

LIMIT = 0.02
BATCH_SIZE = 128


def reading_seconds(data: ArrayData, batches: int, seed: int) -> float:
    """Drawing so many batches and doing nothing with them; the shuffling of the epoch included."""
    start = time.perf_counter()
    for _ in itertools.islice(data.batches(BATCH_SIZE, torch.Generator().manual_seed(seed)), batches):
        pass
    return time.perf_counter() - start


def training_seconds(
    network: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: Iterable[Batch]
) -> float:
    """Forward, backward and step on batches that are there already."""
    start = time.perf_counter()
    for inputs, labels in batches:
        loss = F.cross_entropy(network(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data-dir")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    arrays, statistics = load_with_statistics("fashion-mnist", "train", arguments.data_dir)
    data = ArrayData.from_arrays(*arrays, Scaling(*statistics))
    network = lenet5(10).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    shares = []
    for seed in range(arguments.rounds + 1):
        reading = reading_seconds(data, arguments.batches, seed)
        kept = itertools.islice(
            data.batches(BATCH_SIZE, torch.Generator().manual_seed(seed)), arguments.batches
        )
        training = training_seconds(network, optimizer, list(kept))
        if seed:  # the first round warms up
            shares.append(reading / training)
            each = [1000 * seconds / arguments.batches for seconds in (reading, training)]
            print(
                f"round {seed}: {each[0]:.3f} ms to read a batch, {each[1]:.1f} ms to train: {shares[-1]:.2%}"
            )
    print(f"reading costs {spread([100 * share for share in shares], 2)} % of training (limit {LIMIT:.0%})")
    raise SystemExit(median(shares) > LIMIT)


if __name__ == "__main__":
    main()
