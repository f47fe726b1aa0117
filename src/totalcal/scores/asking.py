"""How a predictor is asked: draws and randomness reach those whose `predict` takes them."""

import inspect

import torch
from torch import Tensor

from totalcal.types import Predictive, Predictor


def ask(
    predictor: Predictor, inputs: Tensor, draws: int = 10, generator: torch.Generator | None = None
) -> Predictive:
    """`predictor.predict(inputs)`, with `draws` and `generator` where it has parameters of these names."""
    parameters = inspect.signature(predictor.predict).parameters
    offered = {"draws": draws, "generator": generator}
    return predictor.predict(inputs, **{name: offered[name] for name in offered if name in parameters})
