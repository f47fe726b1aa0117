"""A small convolutional net for small pictures such as scikit-learn's 8×8 digits."""

from collections import OrderedDict

from torch import nn

from totalcal.origin import stamped


@stamped
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
