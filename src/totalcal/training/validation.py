"""How well a model predicts data that it does not learn from, while it learns."""

import torch

from totalcal.process import TuringProcess
from totalcal.scores.fit import nll
from totalcal.training.sources import Source
from totalcal.types import Batch, ContextUse


@torch.no_grad()
def validation_nll(
    model: TuringProcess, source: Source, context: Batch | None, device: torch.device
) -> float:
    """The NLL of the predictive distribution, as a user would see it; the model's mode is left as it was."""
    training = model.training
    model.eval()
    probabilities, truth = [], []
    for inputs, labels in source.batches(256):
        probabilities.append(model.predict(inputs.to(device), context=context).probabilities.cpu())
        truth.append(labels.cpu())
    model.train(training)
    return nll(torch.cat(probabilities).numpy(), torch.cat(truth).numpy())


def context_for(
    model: TuringProcess, source: Source, rows: int, generator: torch.Generator, device: torch.device
) -> Batch | None:
    """Some training rows for a model that cannot predict without a context, none for the others."""
    if model.context_use is not ContextUse.REQUIRED:
        return None
    inputs, labels = next(iter(source.batches(rows, generator)))
    return Batch(inputs[:rows].to(device), labels[:rows].to(device))
