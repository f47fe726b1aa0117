"""Every random number of a run is a function of its seed and of where in the run it is drawn.

So no generator has to be saved: a resumed run draws what it would have drawn.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import numpy
import torch


class Purpose(IntEnum):
    """What numbers are drawn for; each has a stream of its own."""

    ORDER = 0
    CONTEXT = 1
    NOISE = 2
    VALIDATION = 3


def derived_seed(seed: int, purpose: Purpose, *coordinates: int) -> int:
    """A seed for one place of a run, e.g. (epoch, step, rank).

    >>> derived_seed(0, Purpose.NOISE, 1, 2) == derived_seed(0, Purpose.NOISE, 2, 1)
    False
    """
    sequence = numpy.random.SeedSequence([seed, purpose, *coordinates])
    return int(sequence.generate_state(1, numpy.uint64)[0] >> numpy.uint64(1))  # torch takes 63 bits


def generator_for(seed: int, purpose: Purpose, *coordinates: int) -> torch.Generator:
    """A generator of the order of rows and of context sizes, which all ranks have in common."""
    return torch.Generator().manual_seed(derived_seed(seed, purpose, *coordinates))


@contextmanager
def borrowed_generators(device: torch.device) -> Iterator[None]:
    """Within this context torch's own generators are ours; after it they are as they were.

    Dropout inside of a user's backbone takes no generator, so that there is no other way to seed it.
    """
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield


def reseed(device: torch.device, seed: int) -> None:
    """Seed torch's own generators of the CPU and of a run's device.

    Not by `torch.manual_seed`, which looks for every kind of device and takes 0.2 ms: this runs each step.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
