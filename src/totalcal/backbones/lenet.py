"""LeNet5 at the two sizes of the paper's table of architectures (appendix B.3)."""

from collections import OrderedDict

from torch import nn

from totalcal.origin import stamped

GREY = (20, 50, 500)  # Fashion-MNIST
COLOUR = (192, 192, 1000)  # CIFAR-10, SVHN


@stamped
def lenet5(
    num_classes: int,
    image: tuple[int, int, int] = (1, 28, 28),
    widths: tuple[int, int, int] | None = None,
    dropout: float = 0.0,
) -> nn.Sequential:
    """Two 5×5 convolutions, each with 2×2 pooling, and two linear layers.

    `image` is channels × height × width. `widths` are those of the first three layers: 20/50/500 for grey
    images and 192/192/1000 for colour unless given. `dropout` stands before both linear layers.

    >>> import torch
    >>> lenet5(10, image=(3, 32, 32), widths=(4, 8, 16))(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    channels, height, width = image
    first, second, hidden = widths or (GREY if channels == 1 else COLOUR)
    flat = second * _after_two_stages(height) * _after_two_stages(width)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    # max and ReLU commute: pooling first is the same function on a quarter of the pixels.
    layers |= {"conv1": nn.Conv2d(channels, first, 5), "pool1": nn.MaxPool2d(2), "relu1": _relu()}
    layers |= {"conv2": nn.Conv2d(first, second, 5), "pool2": nn.MaxPool2d(2), "relu2": _relu()}
    layers["flatten"] = nn.Flatten()
    if dropout:
        layers["dropout1"] = nn.Dropout(dropout)
    layers |= {"linear1": nn.Linear(flat, hidden), "relu3": _relu()}
    if dropout:
        layers["dropout2"] = nn.Dropout(dropout)
    layers["classes"] = nn.Linear(hidden, num_classes)
    return nn.Sequential(layers)


def _relu() -> nn.Module:
    return nn.ReLU(inplace=True)  # nothing else needs its input


def _after_two_stages(size: int) -> int:
    side = ((size - 4) // 2 - 4) // 2
    if side < 1:
        raise ValueError(f"LeNet5 needs images of 16 pixels or more a side, not {size}: try small_convnet.")
    return side
