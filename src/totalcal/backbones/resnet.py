"""ResNet-18 (He et al. 2016): the stem of the paper's table, of the authors' program, of CIFAR custom."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from torch import Tensor, nn

from totalcal.origin import stamped

Stem = Literal["imagenet", "authors", "cifar"]


class ResidualBlock(nn.Module):
    """relu(norm(conv(relu(norm(conv(x))))) + shortcut(x)), the shortcut 1×1 where the shape changes."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _conv(channels, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = _conv(width, width, 3, 1), nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        same_shape = stride == 1 and channels == width
        self.shortcut = (
            nn.Identity()
            if same_shape
            else nn.Sequential(_conv(channels, width, 1, stride), nn.BatchNorm2d(width))
        )

    def forward(self, inputs: Tensor) -> Tensor:
        inner = self.relu(self.norm1(self.conv1(inputs)))
        outputs: Tensor = self.relu(self.norm2(self.conv2(inner)) + self.shortcut(inputs))
        return outputs


@stamped
def resnet18(
    num_classes: int, stem: Stem = "imagenet", width: int = 64, channels: int = 3, dropout: float = 0.0
) -> nn.Sequential:
    """Four stages of two blocks, `width` channels in the first and twice as many in each next one.

    Stems: `imagenet` is 7×7, stride 2, and max pooling (for 224 pixels); `authors` the same without the
    pooling; `cifar` 3×3, stride 1. The end takes the mean over whatever pixels are left: any size fits.

    >>> import torch
    >>> resnet18(100, stem="cifar", width=8)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    """
    if stem not in STEMS:
        raise ValueError(f"stem is one of {', '.join(STEMS)}, not {stem!r}.")
    layers: OrderedDict[str, nn.Module] = OrderedDict(stem=STEMS[stem](channels, width))
    before = width
    for stage, stride in enumerate((1, 2, 2, 2), start=1):
        after = width * 2 ** (stage - 1)
        layers[f"stage{stage}"] = nn.Sequential(
            ResidualBlock(before, after, stride), ResidualBlock(after, after, 1)
        )
        before = after
    layers |= {"pool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    if dropout:
        layers["dropout"] = nn.Dropout(dropout)
    layers["classes"] = nn.Linear(before, num_classes)
    network = nn.Sequential(layers)
    _he_initialise(network)
    return network


def _conv(channels: int, width: int, kernel: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(channels, width, kernel, stride, padding=kernel // 2, bias=False)


def _authors_stem(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(_conv(channels, width, 7, 2), nn.BatchNorm2d(width), nn.ReLU())


def _imagenet_stem(channels: int, width: int) -> nn.Sequential:
    return _authors_stem(channels, width).append(nn.MaxPool2d(3, stride=2, padding=1))


def _cifar_stem(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(_conv(channels, width, 3, 1), nn.BatchNorm2d(width), nn.ReLU())


def _he_initialise(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


STEMS: Mapping[str, Callable[[int, int], nn.Sequential]] = MappingProxyType(
    {"imagenet": _imagenet_stem, "authors": _authors_stem, "cifar": _cifar_stem}
)
