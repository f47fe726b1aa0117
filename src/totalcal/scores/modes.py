"""A module is judged in eval mode, and gets the modes of all its parts back."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Within this context every part of the module is in eval mode.

    >>> dropout = nn.Dropout()
    >>> with eval_mode(dropout):
    ...     dropout.training
    False
    >>> dropout.training
    True
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
