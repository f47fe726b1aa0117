"""How a predictor is asked: draws and randomness reach those whose `predict` takes them."""

import inspect

import torch
from torch import Tensor

from totalcal.errors import InputError
from totalcal.types import Predictive, Predictor


def ask(
    predictor: Predictor, inputs: Tensor, draws: int = 10, generator: torch.Generator | None = None
) -> Predictive:
    """`predictor.predict(inputs)`, with `draws` and `generator` where it has parameters of these names."""
    if not isinstance(predictor, Predictor):
        raise InputError(f"a {type(predictor).__name__} has no `predict`. {_WRAP}")
    parameters = inspect.signature(predictor.predict).parameters
    offered = {"draws": draws, "generator": generator}
    answer: object = predictor.predict(
        inputs, **{name: offered[name] for name in offered if name in parameters}
    )
    if not isinstance(answer, Predictive):
        raise InputError(
            f"`predict` of a {type(predictor).__name__} must return a Predictive, "
            f"but a {type(answer).__name__} came. {_WRAP}"
        )
    return answer


_WRAP = (
    "Wrap it: from_module(module, kind), from_sklearn(classifier) or ForeignPredictor(function, kind) "
    "of totalcal.scores."
)
