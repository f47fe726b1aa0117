"""Predictions are judged in eval mode: in train mode BatchNorm would learn from the test set."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor, nn

_LEAVES = (Tensor, np.ndarray, str, bytes, int, float, complex, type, ModuleType, type(None))


@contextmanager
def eval_mode(holder: object) -> Iterator[None]:
    """Within this context every net that `holder` is or holds is in eval mode; afterwards as before.

    Whatever a predictor is made of (attributes, lists, a function's own variables) is looked through, so that
    predictors of one's own need not know about modes.

    >>> dropout = nn.Dropout()
    >>> with eval_mode({"net": dropout}):
    ...     dropout.training
    False
    >>> dropout.training
    True
    """
    modes = [(part, part.training) for module in held_modules(holder) for part in module.modules()]
    for part, _ in modes:
        part.training = False
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def held_modules(holder: object) -> list[nn.Module]:
    """The nets that an object is or holds, each once.

    >>> net = nn.Linear(1, 2)
    >>> held_modules([lambda inputs: net(inputs), net]) == [net]
    True
    """
    found: list[nn.Module] = []
    seen: set[int] = set()
    waiting = [holder]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, _LEAVES):
            continue
        seen.add(id(thing))
        if isinstance(thing, nn.Module):
            found.append(thing)
        else:
            waiting += _parts(thing)
    return found


def _parts(thing: object) -> list[Any]:
    match thing:
        case Mapping():
            return list(thing.values())
        case list() | tuple() | set() | frozenset():
            return list(thing)
        case partial():
            return [thing.func, *thing.args, *thing.keywords.values()]
        case MethodType():
            return [thing.__self__, thing.__func__]
        case FunctionType():
            return _variables(thing)
    return list(vars(thing).values()) if hasattr(thing, "__dict__") else []


def _variables(function: Callable[..., Any]) -> list[Any]:
    """What a function's body takes from outside; of its globals the nets alone, not a whole program."""
    variables = inspect.getclosurevars(function)
    nets = [value for value in variables.globals.values() if isinstance(value, nn.Module)]
    return [*variables.nonlocals.values(), *nets]
