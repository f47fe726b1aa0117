"""Small nets that demo, tutorials and estimators use, and the names by which a file knows a net.

Any `nn.Module` that ends in one column per class serves as well.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from totalcal.errors import InputError
from totalcal.inputs import logits
from totalcal.memory.features import reading
from totalcal.origin import stamped

NetFactory = TypeVar("NetFactory", bound=Callable[..., nn.Module])

BACKBONES: dict[str, Callable[..., nn.Module]] = {}
"""Every net that a model file may name, by its name."""


def named_net(factory: NetFactory) -> NetFactory:
    """Let model files name the nets that a factory makes, with its plain arguments.

    Args:
        factory: A function that returns a net; it goes by its own name.

    Returns:
        The factory, stamped, so that what it makes remembers its arguments.

    Example:
        >>> @named_net
        ... def one_layer(num_classes, width=4):
        ...     return nn.Linear(width, num_classes)
        >>> BACKBONES.pop("one_layer")(num_classes=3)
        Linear(in_features=4, out_features=3, bias=True)
    """
    BACKBONES[factory.__name__] = made = stamped(factory)
    return made  # type: ignore[return-value]


@named_net
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


@named_net
def small_convnet(
    num_classes: int,
    image: tuple[int, int, int] = (1, 8, 8),
    widths: tuple[int, int, int] = (16, 32, 64),
    dropout: float = 0.0,
) -> nn.Sequential:
    """Two padded 3×3 convolutions, each with 2×2 pooling, and two linear layers.

    >>> import torch
    >>> small_convnet(10)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    channels, height, width = image
    first, second, hidden = widths
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    layers |= {
        "conv1": nn.Conv2d(channels, first, 3, padding=1),
        "pool1": nn.MaxPool2d(2),
        "relu1": nn.ReLU(),
    }
    layers |= {"conv2": nn.Conv2d(first, second, 3, padding=1), "pool2": nn.MaxPool2d(2), "relu2": nn.ReLU()}
    layers |= {"flatten": nn.Flatten(), "linear1": nn.Linear(second * (height // 4) * (width // 4), hidden)}
    layers["relu3"] = nn.ReLU()
    if dropout:
        layers["dropout"] = nn.Dropout(dropout)
    layers["classes"] = nn.Linear(hidden, num_classes)
    return nn.Sequential(layers)


class OfNodes(nn.Module):
    """A net over a graph as a classifier of its nodes: a row is the number of a node.

    Every pass runs over the whole graph and gives the rows that were asked for, so that nodes may be split
    into training, held-out and test rows as any others. The graph is no part of a model file: it comes with
    the net that is handed to `load`, where it may be another one.

    Args:
        net: Called as `net(x, **shared)`; gives a row of logits for each node.
        x: The features of all nodes.
        shared: What belongs to no single node, by the names in the net's `forward`.

    Example:
        >>> class Mean(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.classes = nn.Linear(4, 3)
        ...     def forward(self, x, edge_index):
        ...         return self.classes(x).index_add(0, edge_index[1], self.classes(x)[edge_index[0]])
        >>> net = OfNodes(Mean(), torch.randn(9, 4), edge_index=torch.tensor([[0, 1], [1, 2]]))
        >>> net(torch.tensor([2, 7])).shape
        torch.Size([2, 3])
    """

    def __init__(self, net: nn.Module, x: Tensor, **shared: Tensor) -> None:
        super().__init__()
        self.net, self.names = net, tuple(shared)
        self.register_buffer("nodes", x, persistent=False)
        for name, value in shared.items():
            self.register_buffer(f"shared_{name}", value, persistent=False)

    def forward(self, numbers: Tensor) -> Tensor:
        nodes = self.get_buffer("nodes")
        if numbers.dim() != 1 or numbers.is_floating_point() or numbers.dtype == torch.bool:
            raise InputError(
                f"rows are the numbers of nodes, 0 to {len(nodes) - 1}, but came as {numbers.dtype} of shape "
                f"{tuple(numbers.shape)}. Of a mask, give mask.nonzero().flatten()."
            )
        # an exported program has no place for errors that depend on values
        if not torch.compiler.is_compiling() and len(numbers):
            first, last = int(numbers.min()), int(numbers.max())
            if first < 0 or last >= len(nodes):
                raise InputError(
                    f"the graph has the nodes 0 to {len(nodes) - 1}, but rows range from {first} to {last}."
                )
        with reading(numbers, len(nodes)):
            shared = {name: self.get_buffer(f"shared_{name}") for name in self.names}
            return logits(self.net(nodes, **shared))[numbers]


@named_net
def log_probabilities(num_classes: int, floor: float = 0.0) -> "LogProbabilities":
    """The logarithms of probabilities that come in, none of them below `floor`: a net for what others say.

    >>> import torch
    >>> log_probabilities(2, floor=0.1)(torch.tensor([[1.0, 0.0]])).exp()
    tensor([[1.0000, 0.1000]])
    """
    return LogProbabilities(floor)


class LogProbabilities(nn.Module):
    """log max(p, floor); of a single number per row, the positive class's, those of both classes."""

    def __init__(self, floor: float) -> None:
        super().__init__()
        self.floor = floor

    def forward(self, probabilities: Tensor) -> Tensor:
        if probabilities.ndim == 1:
            probabilities = torch.stack([1 - probabilities, probabilities], 1)
        return probabilities.clamp_min(max(self.floor, torch.finfo(probabilities.dtype).tiny)).log()
