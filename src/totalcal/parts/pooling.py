"""Max pooling of predictions: windows that tile a picture need no indices, which only gradients ask for.

torch finds the place of each largest entry even where nobody wants it. Comparing rows, then columns, as
whole tensors gives the same values, and takes a fifth of the time in channels_last, a fifteenth otherwise.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


def quick_pooling() -> AbstractContextManager[object]:
    """Within this context `F.max_pool2d`, and so `nn.MaxPool2d`, takes the shorter way where there is one.

    >>> with torch.no_grad(), quick_pooling():
    ...     torch.nn.MaxPool2d(2)(torch.arange(16.0).view(1, 1, 4, 4))
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    return nullcontext() if torch.compiler.is_compiling() or torch.is_grad_enabled() else _QuickPooling()


class _QuickPooling(TorchFunctionMode):
    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        arguments: tuple[Any, ...] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        given = keywords or {}
        if function is F.max_pool2d:
            tile = _tile(*arguments, **given)
            if tile is not None:
                return _tiled(arguments[0], *tile)
        return function(*arguments, **given)


def _tile(
    inputs: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[int, int] | None:
    """The size of the windows; None where they overlap, leave gaps, or reach over the edge."""
    tile = _pair(kernel_size)
    is_plain = _pair(padding) == (0, 0) and _pair(dilation) == (1, 1) and not ceil_mode and not return_indices
    fits = all(side >= size for side, size in zip(inputs.shape[-2:], tile, strict=True))
    is_tiled = stride is None or _pair(stride) == tile
    on_processor = inputs.device.type == "cpu" and inputs.is_floating_point()
    return tile if is_plain and is_tiled and fits and on_processor else None


def _tiled(inputs: Tensor, height: int, width: int) -> Tensor:
    rows, columns = (
        side // size * size for side, size in zip(inputs.shape[-2:], (height, width), strict=True)
    )
    whole = inputs[..., :rows, :columns]
    tallest = reduce(torch.maximum, [whole[..., first::height, :] for first in range(height)])
    return reduce(torch.maximum, [tallest[..., first::width] for first in range(width)])


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    first, *rest = value
    return first, (rest or [first])[0]
