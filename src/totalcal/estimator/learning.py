"""Training in memory for tables, where a step takes a millisecond: plain Adam, and the best epoch is kept."""

import copy
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from totalcal.process import TuringProcess
from totalcal.training.contexts import context_size
from totalcal.training.sources import Source, TensorSource
from totalcal.types import Batch

_VALIDATION_DRAWS = 5


class WeightedSource:
    """As many rows an epoch as there are, drawn with replacement in proportion to their weights."""

    def __init__(self, inputs: Tensor, labels: Tensor, weights: Tensor) -> None:
        self.inputs, self.labels, self.weights = inputs, labels, weights

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, batch_size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
        drawn = torch.multinomial(self.weights, len(self), replacement=True, generator=generator)
        for rows in drawn.split(batch_size):
            yield Batch(self.inputs[rows], self.labels[rows])


def source_of(data: Batch, weights: Tensor | None) -> Source:
    return TensorSource(*data) if weights is None else WeightedSource(*data, weights)


class Learner:
    """A model and its optimiser; it can go on learning at any time."""

    def __init__(self, model: TuringProcess, learning_rate: float, batch_size: int) -> None:
        self.model, self.batch_size = model, batch_size
        self.optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
        self.epochs = 0

    def run_epoch(self, source: Source, generator: torch.Generator) -> None:
        """Every row once: a write to the memory and a gradient step for each batch."""
        self.model.train()
        for inputs, labels in source.batches(self.batch_size, generator):
            terms = self.model(inputs, labels, context_size(len(labels), generator), generator)
            loss = terms.total(examples=len(source), epoch=self.epochs)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.epochs += 1
        self.model.eval()

    def run(
        self,
        source: Source,
        validation: Batch | None,
        context: Batch | None,
        *,
        max_epochs: int,
        patience: int | None,
        generator: torch.Generator,
    ) -> None:
        """Learn until the validation NLL has not fallen for `patience` epochs, and keep the best epoch."""
        best_nll, best_epoch, best_state = math.inf, 0, None
        for epoch in range(max_epochs):
            self.run_epoch(source, generator)
            if validation is None or patience is None:
                continue
            nll = self.nll(validation, context)
            if nll < best_nll:
                best_nll, best_epoch, best_state = nll, epoch, copy.deepcopy(self.model.state_dict())
            if epoch - best_epoch >= patience:
                break
        if best_state is not None:
            self.model.load_state_dict(best_state)

    def nll(self, data: Batch, context: Batch | None) -> float:
        """Of the labels, as the model predicts now."""
        prediction = self.model.predict_shared(data.inputs, _VALIDATION_DRAWS, context)
        chosen = prediction.probabilities.gather(1, data.labels.unsqueeze(1))
        return float(-chosen.log().mean())
