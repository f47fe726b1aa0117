"""Numbers below 10⁻³⁸ are zeros while a run trains."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """A processor is slow over denormal numbers, and gradients far back in a padded text are
    nothing else: a step of an LSTM over 500 words is several times as fast without them.

    torch does not tell how it was set, so afterwards it is as it comes: denormal numbers are kept.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
