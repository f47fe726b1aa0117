"""A multi-layer perceptron: the toys of appendix B.1 and B.2, and tables."""

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from totalcal.origin import stamped


@stamped
def mlp(
    num_inputs: int, num_classes: int, hidden: Sequence[int] = (32,), dropout: float = 0.0
) -> nn.Sequential:
    """`num_inputs` → hidden layers with ReLU (and dropout after each, where asked) → `num_classes`.

    >>> import torch
    >>> mlp(4, 3, hidden=(32, 32))(torch.zeros(5, 4)).shape
    torch.Size([5, 3])
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    width = num_inputs
    for index, next_width in enumerate(hidden, start=1):
        layers[f"linear{index}"] = nn.Linear(width, next_width)
        layers[f"relu{index}"] = nn.ReLU()
        if dropout:
            layers[f"dropout{index}"] = nn.Dropout(dropout)
        width = next_width
    layers["classes"] = nn.Linear(width, num_classes)
    return nn.Sequential(layers)
