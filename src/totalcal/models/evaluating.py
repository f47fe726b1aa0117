"""Modules in evaluation mode while they predict."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock

from torch import nn

_LOCK = Lock()
_HELD: dict[nn.Module, int] = {}
"""Modules that were in training mode, and how many predict with them now."""


@contextmanager
def evaluating(parts: Iterable[nn.Module]) -> Iterator[None]:
    """Within this context these modules (`parts_of` a net) are in evaluation mode; then in that they had.

    A prediction does not move running statistics, nor drop units. Several threads may be inside at once: the
    last one out puts the modes back.
    """
    with _LOCK:
        held = [part for part in parts if part.training or part in _HELD]
        for part in held:
            _HELD[part] = _HELD.get(part, 0) + 1
            part.training = False
    try:
        yield
    finally:
        with _LOCK:
            for part in held:
                _HELD[part] -= 1
                if not _HELD[part]:
                    del _HELD[part]
                    part.training = True
