"""How well a model predicts data that it does not learn from, and when to stop waiting for better."""

import torch
from torch import Tensor, nn

from totalcal.inputs import moved, taken
from totalcal.process import TuringProcess
from totalcal.scores.fit import nll
from totalcal.training.history import History
from totalcal.training.sources import Source, labelled
from totalcal.types import Batch, ContextUse


class EarlyStopping:
    """Ends a run whose validation NLL has not fallen for `patience` epochs, with the model of the best epoch.

    Without patience it neither ends a run nor keeps a model.
    """

    def __init__(self, patience: int | None) -> None:
        self.patience = patience
        self.best: dict[str, Tensor] = {}

    def saw(self, history: History, model: nn.Module) -> None:
        """An epoch is over: keep a copy of the model if it is the best so far."""
        if self.patience is not None and history.best_epoch == history.epochs[-1].epoch:
            self.best = {name: value.detach().clone() for name, value in model.state_dict().items()}

    def is_over(self, history: History) -> bool:
        return self.patience is not None and history.epochs_without_progress() >= self.patience

    def restore_best(self, model: nn.Module) -> None:
        if self.best:
            model.load_state_dict(self.best)


@torch.no_grad()
def validation_nll(
    model: TuringProcess, source: Source, context: Batch | None, device: torch.device
) -> float:
    """The NLL of the predictive distribution, as a user would see it; the model's mode is left as it was."""
    training = model.training
    model.eval()
    probabilities, truth = [], []
    for inputs, labels in map(labelled, source.batches(256)):
        probabilities.append(model.predict(moved(inputs, device), context=context).probabilities.cpu())
        truth.append(labels.cpu())
    model.train(training)
    return nll(torch.cat(probabilities).numpy(), torch.cat(truth).numpy())


def context_for(
    model: TuringProcess, source: Source, rows: int, generator: torch.Generator, device: torch.device
) -> Batch | None:
    """Some training rows for a model that cannot predict without a context, none for the others."""
    if model.context_use is not ContextUse.REQUIRED:
        return None
    inputs, labels = labelled(next(iter(source.batches(rows, generator))))
    some = slice(0, rows)
    return Batch(moved(taken(inputs, some), device), labels[some].to(device))
