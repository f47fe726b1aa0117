"""The batches of one epoch, as one rank of a run sees them, and every seed that a run draws from.

Every random number of a run is a function of its seed and of where in the run it is drawn. So no generator
has to be saved: a resumed run draws what it would have drawn.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from itertools import count

import numpy
import torch

from totalcal.inputs import moved, taken
from totalcal.training.options import PAPER_CONTEXTS, Contexts, RunSettings
from totalcal.training.sources import Source, labelled_batch
from totalcal.types import Batch


class Purpose(IntEnum):
    """What numbers are drawn for; each has a stream of its own."""

    ORDER = 0
    CONTEXT = 1
    NOISE = 2
    VALIDATION = 3
    LOADER = 4
    AUGMENTATION = 5


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
    """Within this context the global generators of torch, NumPy and Python are ours; after it they are as
    before.

    Dropout inside of a user's backbone and augmentation inside of a user's data set take no generator, so
    that there is no other way to seed them.
    """
    devices = [device] if device.type == "cuda" else []
    of_numpy, of_python = numpy.random.get_state(), random.getstate()  # noqa: NPY002 (the global one is meant)
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        numpy.random.set_state(of_numpy)  # noqa: NPY002
        random.setstate(of_python)


def reseed(device: torch.device, seed: int) -> None:
    """Seed the global generators: torch's of the CPU and of a run's device, NumPy's, Python's.

    Not by `torch.manual_seed`, which looks for every kind of device and takes 0.2 ms: this runs each step.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
    numpy.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)


def context_size(
    rows: int, generator: torch.Generator | None = None, contexts: Contexts = PAPER_CONTEXTS
) -> int:
    """How many of a batch's first rows are the context: uniform in [3, min(50, rows)) unless given.

    A batch too small for that gives no context.

    >>> context_size(3), context_size(4)
    (0, 3)
    """
    limit = min(contexts.limit, rows)
    if limit <= contexts.shortest:
        return 0
    return int(torch.randint(contexts.shortest, limit, (), generator=generator))


def epoch_batches(
    data: Source, settings: RunSettings, epoch: int, done: int, device: torch.device, rank: int, ranks: int
) -> Iterator[tuple[Batch, int]]:
    """What is left of an epoch after `done` steps, each with the size of its context.

    Order and context sizes are the same on all ranks, which share the rows of each batch. The global
    generators are seeded before a loader starts, because the seeds of its workers come from them, and again
    before each batch, because the loader, its data set and the backbone's dropout may draw from them too.
    """
    reseed(device, derived_seed(settings.seed, Purpose.LOADER, epoch))
    batches = iter(data.batches(settings.batch_size, generator_for(settings.seed, Purpose.ORDER, epoch)))
    sizes = generator_for(settings.seed, Purpose.CONTEXT, epoch)
    for step in count():
        reseed(device, derived_seed(settings.seed, Purpose.NOISE, epoch, step, rank))
        drawn = next(batches, None)
        if drawn is None:
            return
        whole = labelled_batch(drawn)
        drawn_context = context_size(len(whole.labels), sizes, settings.contexts) // ranks
        batch = share_of_rank(whole, rank, ranks)
        if step >= done and len(batch.labels):
            # A short last batch split over ranks may be all context, which would leave no row for the loss.
            there = Batch(moved(batch.inputs, device), batch.labels.to(device, non_blocking=True))
            yield there, min(drawn_context, len(batch.labels) - 1)


def share_of_rank(batch: Batch, rank: int, ranks: int) -> Batch:
    """Every `ranks`-th row: the first rows of all shares together are the first rows of the batch.

    All ranks get as many rows; at most `ranks` − 1 of a batch are left out.

    >>> rows = torch.arange(5)
    >>> share_of_rank(Batch(rows, rows), rank=1, ranks=2).labels
    tensor([1, 3])
    """
    rows = len(batch.labels) - len(batch.labels) % ranks
    share = slice(rank, rows, ranks)
    return Batch(taken(batch.inputs, share), batch.labels[share])
