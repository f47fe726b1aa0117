"""The paper's nets: LeNet5 and ResNet-18 for pictures, an LSTM for tokens."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from torch import Tensor, nn

from totalcal.nets import named_net

GREY = (20, 50, 500)  # Fashion-MNIST
COLOUR = (192, 192, 1000)  # CIFAR-10, SVHN


@named_net
def lenet5(
    num_classes: int,
    image: tuple[int, int, int] = (1, 28, 28),
    widths: tuple[int, int, int] | None = None,
    dropout: float = 0.0,
    per_image_scaling: bool = False,
) -> nn.Sequential:
    """Two 5×5 convolutions, each with 2×2 pooling, and two linear layers.

    `image` is channels × height × width. `widths` are those of the first three layers: 20/50/500 for grey
    images and 192/192/1000 for colour unless given. `dropout` stands before both linear layers.
    `per_image_scaling`: each image is first scaled by its own mean and deviation, so that the net sees
    neither how bright it is nor how much contrast it has.

    >>> import torch
    >>> lenet5(10, image=(3, 32, 32), widths=(4, 8, 16))(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    channels, height, width = image
    first, second, hidden = widths or (GREY if channels == 1 else COLOUR)
    flat = second * _after_two_stages(height) * _after_two_stages(width)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if per_image_scaling:
        layers["per_image_scaling"] = _scaled_alone(channels)
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


def _scaled_alone(channels: int) -> nn.Module:
    return nn.GroupNorm(1, channels, affine=False)  # one group: all pixels of an image


def _relu() -> nn.Module:
    return nn.ReLU(inplace=True)  # nothing else needs its input


def _after_two_stages(size: int) -> int:
    side = ((size - 4) // 2 - 4) // 2
    if side < 1:
        raise ValueError(f"LeNet5 needs images of 16 pixels or more a side, not {size}: try small_convnet.")
    return side


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


@named_net
def resnet18(
    num_classes: int,
    stem: Stem = "imagenet",
    width: int = 64,
    channels: int = 3,
    dropout: float = 0.0,
    per_image_scaling: bool = False,
) -> nn.Sequential:
    """Four stages of two blocks, `width` channels in the first and twice as many in each next one.

    Stems: `imagenet` is 7×7, stride 2, and max pooling (for 224 pixels); `authors` the same without the
    pooling; `cifar` 3×3, stride 1. The end takes the mean over whatever pixels are left: any size fits.
    `per_image_scaling` is as in `lenet5`.

    >>> import torch
    >>> resnet18(100, stem="cifar", width=8)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    """
    if stem not in STEMS:
        raise ValueError(f"stem is one of {', '.join(STEMS)}, not {stem!r}.")
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if per_image_scaling:
        layers["per_image_scaling"] = _scaled_alone(channels)
    layers["stem"] = STEMS[stem](channels, width)
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


class LSTMClassifier(nn.Module):
    """Embedding → LSTM → the last step → one column per class.

    Texts are padded with token 0 on the left, so the last step has read the whole text: no length is needed.
    """

    def __init__(
        self, num_classes: int, vocabulary: int, embedding: int, hidden: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=0)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(hidden, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """[batch, length] of int64 → [batch, classes]."""
        steps, _ = self.lstm(self.embedding(tokens))  # [batch, length, hidden]
        logits: Tensor = self.classes(self.dropout(steps[:, -1]))
        return logits


@named_net
def lstm(
    num_classes: int,
    vocabulary: int = 1001,
    embedding: int = 64,
    hidden: int = 256,
    layers: int = 2,
    dropout: float = 0.0,
) -> LSTMClassifier:
    """`vocabulary` counts the padding, token 0; `dropout` stands before the last layer.

    >>> import torch
    >>> lstm(2, hidden=8)(torch.ones(3, 5, dtype=torch.int64)).shape
    torch.Size([3, 2])
    """
    return LSTMClassifier(num_classes, vocabulary, embedding, hidden, layers, dropout)
