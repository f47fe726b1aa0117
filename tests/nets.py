"""Small nets of every kind that tests need: convolutions, residual blocks with BatchNorm, an LSTM."""

from collections import OrderedDict

from torch import Tensor, nn

from totalcal.nets import named_net


@named_net
def lenet5(
    num_classes: int,
    image: tuple[int, int, int] = (1, 28, 28),
    widths: tuple[int, int, int] = (20, 50, 500),
    per_image_scaling: bool = False,
) -> nn.Sequential:
    """LeNet5, its pooling before its (in-place) ReLU; with `per_image_scaling` behind a GroupNorm."""
    channels, height, width = image
    first, second, hidden = widths
    flat = second * (((height - 4) // 2 - 4) // 2) * (((width - 4) // 2 - 4) // 2)
    layers: dict[str, nn.Module] = {}
    if per_image_scaling:
        layers["per_image_scaling"] = nn.GroupNorm(1, channels, affine=False)
    for stage, (before, after) in enumerate(((channels, first), (first, second)), start=1):
        layers[f"conv{stage}"] = nn.Conv2d(before, after, 5)
        layers[f"pool{stage}"], layers[f"relu{stage}"] = nn.MaxPool2d(2), nn.ReLU(inplace=True)
    layers |= {"flatten": nn.Flatten(), "linear1": nn.Linear(flat, hidden), "relu3": nn.ReLU(inplace=True)}
    return nn.Sequential(OrderedDict(layers, classes=nn.Linear(hidden, num_classes)))


class Block(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1, self.norm2, self.relu = nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.ReLU()
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or channels != width:
            point = nn.Conv2d(channels, width, 1, stride, bias=False)
            self.shortcut = nn.Sequential(point, nn.BatchNorm2d(width))

    def forward(self, inputs: Tensor) -> Tensor:
        inner = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(inputs)))))
        outputs: Tensor = self.relu(inner + self.shortcut(inputs))
        return outputs


@named_net
def resnet18(num_classes: int, width: int = 64, channels: int = 3) -> nn.Sequential:
    """ResNet-18 with the stem for small pictures."""
    stem = nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
    layers: dict[str, nn.Module] = {"stem": nn.Sequential(*stem)}
    for stage, (before, after) in enumerate(((1, 1), (1, 2), (2, 4), (4, 8)), start=1):
        first = Block(before * width, after * width, after // before)
        layers[f"stage{stage}"] = nn.Sequential(first, Block(after * width, after * width, 1))
    layers |= {"pool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    return nn.Sequential(OrderedDict(layers, classes=nn.Linear(8 * width, num_classes)))


class TextNet(nn.Module):
    """Embedding → LSTM → the last step → one column per class."""

    def __init__(self, num_classes: int, vocabulary: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=0)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.dropout, self.classes = nn.Dropout(0.0), nn.Linear(hidden, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        steps, _ = self.lstm(self.embedding(tokens))
        logits: Tensor = self.classes(self.dropout(steps[:, -1]))
        return logits


@named_net
def lstm(
    num_classes: int, vocabulary: int = 1001, embedding: int = 64, hidden: int = 256, layers: int = 2
) -> TextNet:
    return TextNet(num_classes, vocabulary, embedding, hidden, layers)
