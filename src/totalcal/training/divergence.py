"""A loss that is not finite stops a run, and says where and why."""

import math

from torch import nn

from totalcal.errors import DivergenceError
from totalcal.training.history import StepReport

_CAUSES = {
    "expected_nll": "The backbone's output overflows: scale the inputs (z-score) or lower the learning rate",
    "local_kl": "A belief over π has left the range of numbers: lower the learning rate",
    "latent_kl": "The law of Z has collapsed or exploded: lower the learning rate or the latent KL's weight",
    "weight_kl": "The weights' law has left the range of numbers: lower the learning rate",
    "loss": "The terms are finite, but their sum is not: the weights of the KLs are too large",
}


def check_finite(report: StepReport, model: nn.Module, learning_rate: float) -> None:
    """Raise if the loss of a step is not a number, before its gradient reaches the weights."""
    if math.isfinite(report.loss):
        return
    term = next(name for name in _CAUSES if not math.isfinite(getattr(report, name)))
    raise DivergenceError(
        f"the loss is {report.loss} in epoch {report.epoch}, step {report.step}: "
        f"its term {term} is {getattr(report, term)}.\n  {_cause(term, model)} "
        f"(the learning rate is {learning_rate:g}), or set Optimisation(clip=1.0)."
    )


def _cause(term: str, model: nn.Module) -> str:
    broken = [name for name, weight in model.named_parameters() if not weight.isfinite().all()]
    if broken:
        return f"{broken[0]} is not finite: an earlier step was too long. Lower the learning rate"
    return _CAUSES[term]
