"""Modules in evaluation mode while they predict."""

from collections.abc import Iterable
from threading import Lock

from torch import nn

_LOCK = Lock()
_HELD: dict[nn.Module, int] = {}
"""Modules that were in training mode, and how many predict with them now."""


class Evaluating:
    """Within this context these modules (`parts_of` a net) are in evaluation mode; then in that they had.

    A prediction does not move running statistics, nor drop units. Several threads may be inside at once: the
    last one out puts the modes back.
    """

    def __init__(self, parts: Iterable[nn.Module]) -> None:
        self.parts = parts

    def __enter__(self) -> None:
        with _LOCK:
            self.held = [part for part in self.parts if part.training or part in _HELD]
            for part in self.held:
                _HELD[part] = _HELD.get(part, 0) + 1
                part.training = False

    def __exit__(self, *_: object) -> None:
        if not self.held:
            return
        with _LOCK:
            for part in self.held:
                _HELD[part] -= 1
                if not _HELD[part]:
                    del _HELD[part]
                    part.training = True
