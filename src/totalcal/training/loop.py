"""The paper's algorithm as a plain loop: for toys, tests, and for reading."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from totalcal.process import TuringProcess
from totalcal.types import Batch

_SHORTEST_CONTEXT, _CONTEXT_LIMIT = 3, 50


class Step(NamedTuple):
    """What one gradient step left behind, as plain numbers."""

    epoch: int
    loss: float
    expected_nll: float
    memory_movement: float


def context_size(rows: int, generator: torch.Generator | None = None) -> int:
    """How many of a batch's first rows are the context: uniform in [3, min(50, rows)).

    A batch too small for that gives no context.
    """
    limit = min(_CONTEXT_LIMIT, rows)
    if limit <= _SHORTEST_CONTEXT:
        return 0
    return int(torch.randint(_SHORTEST_CONTEXT, limit, (), generator=generator))


def shuffled_batches(data: Batch, size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
    """The rows of `data` in a new order, in batches of `size`."""
    order = torch.randperm(len(data.labels), generator=generator)
    for rows in order.split(size):
        yield Batch(data.inputs[rows], data.labels[rows])


def train(
    model: TuringProcess,
    inputs: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    learning_rate: float = 1e-3,
    batch_size: int = 128,
    generator: torch.Generator | None = None,
) -> list[Step]:
    """Adam on the free energy, a write to the memory before every step; a Step for each of them."""
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    model.train()
    history = []
    for epoch in range(epochs):
        for batch in shuffled_batches(Batch(inputs, labels), batch_size, generator):
            context = context_size(len(batch.labels), generator)
            embedding = model.encode(batch.inputs, generator)
            movement = model.absorb(embedding[:context].detach(), batch.labels[:context], generator)
            terms = model.loss_terms(embedding, batch.labels, context, generator)
            loss = terms.total(examples=len(labels), epoch=epoch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(Step(epoch, loss.item(), terms.expected_nll.item(), movement.mean.item()))
    model.eval()
    return history
