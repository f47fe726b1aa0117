"""Which precisions are too coarse for sums, logarithms and small differences."""

import torch
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


def at_least_single(tensor: Tensor) -> Tensor:
    """Half precision as float32, anything else as it is.

    >>> at_least_single(torch.ones(1, dtype=torch.bfloat16)).dtype
    torch.float32
    """
    return tensor.float() if tensor.dtype in HALVES else tensor
