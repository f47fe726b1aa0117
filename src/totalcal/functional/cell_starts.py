"""Where the memory cells start, before the first write (silent in the paper)."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

CellStart = Callable[[int, int], Tensor]

_SCALE = 0.01


def squared_noise(num_cells: int, num_classes: int) -> Tensor:
    """Squares of N(0, 0.01²) draws, as the paper's authors start: all cells alike but for 10⁻⁴."""
    return (_SCALE * torch.randn(num_cells, num_classes)).square()


def one_class_each(num_cells: int, num_classes: int) -> Tensor:
    """Each cell stands for one class in turn, so that attention can tell cells apart from the first step.

    >>> one_class_each(3, 2)
    tensor([[1., 0.],
            [0., 1.],
            [1., 0.]])
    """
    return F.one_hot(torch.arange(num_cells) % num_classes, num_classes).float()
