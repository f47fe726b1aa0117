"""What must not be kept in half precision, whatever the module around it is converted to."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from totalcal.functional.rounding import HALVES


class FullPrecision(nn.Module):
    """A module whose own parameters and buffers stay in float32 when it is asked for less.

    A log-variance of −9 has neighbours 0.06 apart in bfloat16, many times a step of gradient descent, and a
    memory cell that keeps 99 % of itself likewise hardly moves. What the module gives is in the precision
    that was asked for (`spoken`), so that it fits its neighbours.
    """

    _spoken: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("_spoken", torch.empty(0), persistent=False)  # follows every conversion

    @property
    def spoken(self) -> torch.dtype:
        """The precision of what the module gives."""
        return self._spoken.dtype

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Where every conversion of a module passes: `to`, `half`, `bfloat16`, `cuda`."""
        if recurse:
            for child in self.children():
                child._apply(fn)

        def at_least_single(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            if tensor is self._spoken or moved.dtype not in HALVES:
                return moved
            return tensor.detach().to(moved.device, torch.float32)

        converted: Any = super()._apply(at_least_single, recurse=False)
        return converted  # type: ignore[no-any-return]
