"""The paper's algorithm as a plain loop: for toys, tests, and for reading."""

from typing import NamedTuple

import torch
from torch import Tensor

from totalcal.process import TuringProcess
from totalcal.training.contexts import context_size
from totalcal.training.sources import TensorSource


class Step(NamedTuple):
    """What one gradient step left behind, as plain numbers."""

    epoch: int
    loss: float
    expected_nll: float
    memory_movement: float


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
    data, order = TensorSource(inputs, labels), generator or torch.default_generator
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    model.train()
    history = []
    for epoch in range(epochs):
        for batch in data.batches(batch_size, order):
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
