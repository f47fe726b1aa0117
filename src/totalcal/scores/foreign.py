"""Predictors that are not ours, judged by the same scores. What they put out is stated, never guessed."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from totalcal.errors import InputError, ShapeError, UnknownNameError
from totalcal.scores.arrays import Values, plain
from totalcal.scores.checks import check_probabilities
from totalcal.scores.modes import eval_mode
from totalcal.types import Belief, Dirichlet, PointMass, Predictive

OutputKind = Literal["logits", "probabilities", "log_concentration", "concentration"]


def as_predictive(outputs: Values, kind: OutputKind) -> Predictive:
    """The predictive distribution of outputs, n × K or draws × n × K, of a stated kind.

    >>> as_predictive([[0.2, 0.8]], "probabilities").probabilities
    tensor([[0.2000, 0.8000]], dtype=torch.float64)
    >>> as_predictive([[1.0, 3.0]], "concentration").concentration
    tensor([4.], dtype=torch.float64)
    """
    values = torch.as_tensor(plain(outputs)).double()
    if values.dim() not in (2, 3) or values.shape[-1] < 2:
        raise ShapeError(
            f"outputs must be examples × classes or draws × examples × classes, with two classes or more, "
            f"but their shape is {tuple(values.shape)}."
        )
    if values.numel() == 0:
        raise InputError("the outputs are empty; a score needs at least one example.")
    return Predictive(_belief(values if values.dim() == 3 else values.unsqueeze(0), kind))


class ForeignPredictor:
    """Any function of inputs as a predictor; `kind` says what it returns.

    >>> uniform = ForeignPredictor(lambda inputs: torch.zeros(len(inputs), 4), "logits")
    >>> uniform.predict(torch.zeros(2, 1)).probabilities[0]
    tensor([0.2500, 0.2500, 0.2500, 0.2500], dtype=torch.float64)
    """

    def __init__(self, function: Callable[[Tensor], Values], kind: OutputKind) -> None:
        if kind not in get_args(OutputKind):
            raise UnknownNameError("kind of output", kind, get_args(OutputKind))
        self.function, self.kind = function, kind

    @torch.no_grad()
    def predict(
        self, inputs: Tensor, draws: int = 10, generator: torch.Generator | None = None
    ) -> Predictive:
        """What the function gives for these inputs; it draws for itself, or not at all."""
        return as_predictive(self.function(inputs), self.kind)


def from_arrays(kind: OutputKind) -> ForeignPredictor:
    """A predictor whose inputs are its outputs already, n × K or, with draws, n × draws × K.

    `evaluate(from_arrays("logits"), (logits, labels))`
    """
    return ForeignPredictor(swap_draws, kind)


def from_module(module: nn.Module, kind: OutputKind) -> ForeignPredictor:
    """Any nn.Module, judged in eval mode on its own device; its mode is put back after each call."""

    def outputs(inputs: Tensor) -> Tensor:
        parameter = next(module.parameters(), None)
        with eval_mode(module):
            found: Tensor = module(inputs if parameter is None else inputs.to(parameter.device))
        return found

    return ForeignPredictor(outputs, kind)


def from_sklearn(classifier: Any) -> ForeignPredictor:
    """Any fitted scikit-learn classifier with `predict_proba`; its classes must be 0 … K − 1."""
    if not np.array_equal(classifier.classes_, np.arange(len(classifier.classes_))):
        raise InputError(
            f"the classifier's classes are {list(classifier.classes_)[:5]}, but they must be 0 … K − 1: "
            "encode the labels (LabelEncoder) before fitting."
        )
    return ForeignPredictor(lambda inputs: classifier.predict_proba(inputs.numpy()), "probabilities")


def swap_draws(outputs: Tensor) -> Tensor:
    """draws × n × K to n × draws × K, by which a set can be cut into blocks, and back; n × K stays."""
    return outputs.transpose(0, 1) if outputs.dim() == 3 else outputs


def _belief(values: Tensor, kind: OutputKind) -> Belief:
    match kind:
        case "probabilities":
            check_probabilities(values.flatten(0, 1))
            return PointMass(values.log())  # −∞ where p = 0, which the softmax takes back to 0
        case "logits":
            return PointMass(_finite(values, kind))
        case "log_concentration":
            return Dirichlet(_finite(values, kind))
        case "concentration":
            return Dirichlet(_positive(_finite(values, kind)).log())
    raise UnknownNameError("kind of output", kind, get_args(OutputKind))


def _finite(values: Tensor, kind: str) -> Tensor:
    if not torch.isfinite(values).all():
        raise InputError(f"{kind} must be finite, but NaN or infinity came.")
    return values


def _positive(concentration: Tensor) -> Tensor:
    if (concentration <= 0).any():
        raise InputError(
            f"concentrations must be above 0, but {float(concentration.min()):.4g} came. "
            "If these are log-concentrations, state them so."
        )
    return concentration
