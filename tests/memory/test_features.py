"""Which layers are read, and what is read there."""

import copy
import pickle
import threading
from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

import totalcal
from totalcal.errors import InputError, ShapeError, UnknownNameError
from totalcal.inputs import Inputs, call
from totalcal.memory.distances import pooled_map
from totalcal.memory.features import Collector, Tap, collecting, found_taps, tap
from totalcal.nets import mlp, small_convnet

from ..nets import lenet5, lstm, resnet18


class Causal(nn.Conv1d):
    """A convolution that looks back only."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(nn.functional.pad(rows, (2, 0)))


class VisionTransformer(nn.Module):
    """Patches, a class token, blocks, a norm, a head on the class token."""

    def __init__(self, blocks: int = 8, width: int = 16, batch_first: bool = True) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        layer = nn.TransformerEncoderLayer(width, 2, 32, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, blocks, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 5)
        self.batch_first = batch_first

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(images), -1, -1), patches], dim=1)
        steps = self.encoder(tokens if self.batch_first else tokens.transpose(0, 1))
        logits: Tensor = self.head(self.norm(steps)[:, 0] if self.batch_first else self.norm(steps)[0])
        return logits


class Embeddings(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(30, width, padding_idx=0), nn.Embedding(20, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        mixed: Tensor = self.norm(self.words(ids) + self.positions.weight[: ids.shape[1]])
        return mixed


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor]:
        return (self.norm(tokens + self.mix(tokens) * mask.unsqueeze(-1)),)  # a tuple, as many encoders give


class Encoder(nn.Module):
    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.embeddings = Embeddings(width)
        self.layer = nn.ModuleList(Block(width) for _ in range(blocks))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        hidden = self.embeddings(ids)
        for block in self.layer:
            (hidden,) = block(hidden, mask)
        return hidden


class TextClassifier(nn.Module):
    """As BERT is built: embeddings, a list of blocks, a pooler, dropout, a classifier; called by keywords."""

    def __init__(self, width: int = 12, blocks: int = 2) -> None:
        super().__init__()
        self.bert = Encoder(width, blocks)
        self.pooler, self.dropout = nn.Linear(width, width), nn.Dropout(0.1)
        self.classifier = nn.Linear(width, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = self.bert(input_ids, attention_mask)
        logits: Tensor = self.classifier(self.dropout(self.pooler(hidden[:, 0]).tanh()))
        return logits


class TorchvisionStyle(nn.Module):
    """One activation for all, functions between the modules, blocks in stages."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        self.layer1 = nn.Sequential(nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()))
        self.layer2 = nn.Sequential(nn.Sequential(nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 5)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.layer2(self.layer1(self.relu(self.bn1(self.conv1(images)))))
        logits: Tensor = self.fc(torch.flatten(self.avgpool(hidden), 1))
        return logits


def found(net: nn.Module, inputs: Inputs, names: list[str] | None = None) -> list[Tap]:
    net.eval()
    with torch.no_grad():
        return found_taps(net, inputs, lambda: call(net, inputs), names)


def said(taps: list[Tap]) -> list[str]:
    return [str(each) for each in taps]


def collected(net: nn.Module, taps: list[Tap], inputs: Inputs, skipped: int = 0) -> Collector:
    tap(net, taps)
    collector = Collector(taps, inputs, skipped)
    with torch.no_grad(), collecting(collector):
        call(net.eval(), inputs)
    return collector


IMAGES = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randint(1, 30, (4, 6), generator=torch.Generator().manual_seed(0))

EXPECTED = {
    "mlp": (
        lambda: mlp(4, 3, hidden=(8, 6)),
        torch.randn(4, 4),
        ["inputs (vector, 4)", "relu1 (vector, 8)", "relu2 (vector, 6)"],
    ),
    "linear": (lambda: nn.Linear(4, 3), torch.randn(4, 4), ["inputs (vector, 4)"]),
    "lenet5": (
        lambda: lenet5(10),
        torch.randn(4, 1, 28, 28),
        ["relu1 (map, 40)", "relu2 (map, 100)", "relu3 (vector, 500)"],
    ),
    "lenet5 of equal widths": (
        lambda: lenet5(10, widths=(6, 6, 9)),
        torch.randn(4, 1, 28, 28),
        ["relu1 (map, 12)", "relu2 (map, 12)", "relu3 (vector, 9)"],
    ),
    "dropout": (
        lambda: small_convnet(3, dropout=0.5),
        torch.randn(4, 1, 8, 8),
        ["relu1 (map, 32)", "relu2 (map, 64)", "dropout (vector, 64)"],
    ),
    "resnet18": (
        lambda: resnet18(5, width=4),
        IMAGES,
        [
            "stem.2 (map, 8)",
            "stage1.1 (map, 8)",
            "stage2.1 (map, 16)",
            "stage3.1 (map, 32)",
            "stage4.1 (map, 64)",
            "classes (input) (vector, 32)",
        ],
    ),
    "torchvision": (
        TorchvisionStyle,
        IMAGES,
        ["layer1.0.1 (map, 16)", "layer2.0.1 (map, 32)", "fc (input) (vector, 16)"],
    ),
    "lstm": (
        lambda: lstm(2, vocabulary=30, hidden=8),
        TOKENS,
        ["embedding (tokens, 64)", "lstm (tokens, 8)", "classes (input) (vector, 8)"],
    ),
    "lstm as wide as its embedding": (
        lambda: lstm(2, vocabulary=30, embedding=8, hidden=8),
        TOKENS,
        ["embedding (tokens, 8)", "lstm (tokens, 8)", "classes (input) (vector, 8)"],
    ),
    "vision transformer": (
        VisionTransformer,
        IMAGES,
        [
            "patches (map, 32)",
            "encoder.layers.1 (tokens, 16)",
            "encoder.layers.3 (tokens, 16)",
            "encoder.layers.5 (tokens, 16)",
            "norm (tokens, 16)",
            "head (input) (vector, 16)",
        ],
    ),
    "text": (
        TextClassifier,
        {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)},
        [
            "bert.embeddings (tokens, 12)",
            "bert.layer.1 (tokens, 12)",
            "dropout (vector, 12)",
        ],
    ),
    "conv1d with a norm of its weights": (
        lambda: nn.Sequential(
            nn.Sequential(weight_norm(nn.Conv1d(2, 4, 3)), nn.ReLU()), nn.Flatten(), nn.Linear(16, 3)
        ),
        torch.randn(5, 2, 6),
        ["0.1 (map, 8)", "2 (input) (vector, 16)"],
    ),
    "conv1d of one's own": (
        lambda: nn.Sequential(Causal(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3)),
        torch.randn(5, 2, 6),
        ["1 (map, 8)", "3 (input) (vector, 24)"],
    ),
    "conv1d": (
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)),
        torch.randn(5, 2, 6),
        ["1 (map, 8)", "3 (input) (vector, 16)"],
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_ends_a_stage_is_found(name: str) -> None:
    make, inputs, expected = EXPECTED[name]
    assert said(found(make(), inputs)) == expected


def test_layers_may_be_named_and_a_wrong_name_is_told() -> None:
    net = lenet5(10)
    images = torch.randn(4, 1, 28, 28)
    assert said(found(net, images, ["inputs", "conv1", "classes (input)"])) == [
        "inputs (map, 2)",
        "conv1 (map, 40)",
        "classes (input) (vector, 500)",
    ]
    with pytest.raises(UnknownNameError, match="relu2"):
        found(net, images, ["rellu2"])


def test_a_layer_that_does_not_run_is_refused() -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.idle, self.classes = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, rows: Tensor) -> Tensor:
            logits: Tensor = self.classes(rows)
            return logits

    with pytest.raises(InputError, match="did not run"):
        found(Idle(), torch.randn(4, 4), ["idle"])


def test_features_are_those_of_the_pass_and_a_layer_behind_cannot_overwrite_them() -> None:
    net = nn.Sequential(OrderedDict(a=nn.Linear(4, 6), b=nn.ReLU(inplace=True), c=nn.Linear(6, 3)))
    rows = torch.randn(5, 4)
    collector = collected(net, found(net, rows, ["a", "b"]), rows)
    assert torch.equal(collector.features["a"].values, net.a(rows))
    assert torch.equal(collector.features["b"].values, net.a(rows).relu())


def test_a_map_gives_its_channels_means_and_deviations() -> None:
    net, images = lenet5(10), torch.randn(4, 1, 28, 28)
    collector = collected(net, found(net, images), images)
    torch.testing.assert_close(collector.features["relu1"].values, pooled_map(net[:3](images)))


def test_rows_of_a_context_are_skipped() -> None:
    net, tokens = lstm(2, vocabulary=30, hidden=8).eval(), TOKENS
    taps = found(net, tokens)
    whole, part = collected(net, taps, tokens, skipped=1), collected(net, taps, tokens[1:])
    for name in ("embedding", "classes (input)"):
        torch.testing.assert_close(whole.features[name].values, part.features[name].values)


def test_tokens_of_padding_do_not_count() -> None:
    net = lstm(2, vocabulary=30, hidden=8)
    tokens = torch.tensor([[0, 0, 5, 6], [1, 2, 3, 4], [0, 0, 0, 0]])
    features = collected(net, found(net, tokens), tokens).features["embedding"]
    assert features.rows is not None
    assert features.rows.tolist() == [0, 0, 1, 1, 1, 1, 2, 2, 2, 2]  # a row of nothing counts as it is
    torch.testing.assert_close(
        features.values, net.embedding(tokens)[[0, 0, *[1] * 4, *[2] * 4], [2, 3, *range(4), *range(4)]]
    )


def test_an_attention_mask_says_what_is_padding() -> None:
    net, mask = TextClassifier(), torch.tensor([[1, 1, 0, 0, 0, 0]] * 4)
    inputs = {"input_ids": TOKENS, "attention_mask": mask}
    features = collected(net, found(net, inputs), inputs).features["bert.layer.1"]
    assert features.rows is not None
    assert features.rows.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


class Attending(nn.Module):
    """A text classifier as torch's tutorials have it: its mask is an argument, or made of the tokens."""

    def __init__(self, batch_first: bool = True, makes_mask: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8)  # knows of no padding
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first)
        self.blocks, self.classes = nn.TransformerEncoder(layer, 2), nn.Linear(8, 3)
        self.batch_first, self.makes_mask = batch_first, makes_mask

    def forward(self, ids: Tensor, padding: Tensor | None = None) -> Tensor:
        padding = ids == 7 if self.makes_mask else padding
        words = self.words(ids)
        words = words if self.batch_first else words.transpose(0, 1)
        states = self.blocks(words, src_key_padding_mask=padding)
        return self.classes(states[:, 0] if self.batch_first else states[0])


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", ["a mask by name", "a mask by place", "a mask of what counts", "tokens"])
def test_tokens_that_attention_leaves_out_do_not_count(kind: str, batch_first: bool) -> None:
    ids, mask = TOKENS.clamp(8, 29).clone(), torch.arange(6) >= torch.tensor([[2], [6], [1], [3]])
    net = Attending(batch_first, makes_mask=kind == "tokens").eval()
    inputs: Inputs = {"ids": ids, "padding": mask}
    if kind == "a mask by place":
        inputs = ids, mask
    elif kind == "a mask of what counts":
        net = Counting(net)
        inputs = {"ids": ids, "counts": (~mask).long()}
    elif kind == "tokens":
        inputs = ids.masked_fill(mask, 7)
    model = totalcal.softmax(net, num_classes=3)
    features = collected(model.backbone, found(model.backbone, inputs), inputs).features
    read = next(each for name, each in features.items() if name.endswith("blocks.layers.1"))
    assert read.rows is not None
    assert read.rows.tolist() == [0, 0, *[1] * 6, 2, 3, 3, 3]


class Counting(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, ids: Tensor, counts: Tensor) -> Tensor:
        logits: Tensor = self.net(ids, counts == 0)
        return logits


def test_a_sequence_that_comes_first_axis_first_is_turned() -> None:
    torch.manual_seed(0)
    turned = VisionTransformer(blocks=2, batch_first=False).eval()
    straight = VisionTransformer(blocks=2).eval()
    straight.load_state_dict(turned.state_dict())
    features = [
        collected(net, found(net, IMAGES, ["encoder.layers.1"]), IMAGES).features
        for net in (turned, straight)
    ]
    torch.testing.assert_close(features[0]["encoder.layers.1"].values, features[1]["encoder.layers.1"].values)


def test_inputs_of_another_width_are_refused() -> None:
    net, rows = mlp(4, 3), torch.randn(5, 4)
    taps = found(net, rows)
    with pytest.raises(ShapeError, match="width"):
        Collector(taps, torch.randn(5, 3))


def test_a_layer_is_tapped_once_and_taps_that_nobody_asks_are_silent() -> None:
    net, rows = mlp(4, 3, hidden=(8, 6)), torch.randn(5, 4)
    expected, taps = net(rows), found(net, rows)
    for _ in range(2):
        tap(net, taps)
    assert sum(len(module._forward_hooks) for module in net.modules()) == 2
    collector = collected(net, taps[:2], rows)
    assert set(collector.features) == {"inputs", "relu1"}
    assert torch.equal(net(rows), expected)


def test_a_tapped_net_can_be_copied_and_pickled() -> None:
    net, rows = mlp(4, 3), torch.randn(5, 4)
    taps = found(net, rows)
    tap(net, taps)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        collector = Collector(taps, rows)
        with collecting(collector):
            twin(rows)
        assert set(collector.features) == {"inputs", "relu1"}


def test_threads_do_not_see_each_other_s_features() -> None:
    net = mlp(4, 3).eval()
    taps = found(net, torch.randn(2, 4))
    tap(net, taps)
    wrong: list[int] = []

    def many(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(200):
            rows = torch.randn(int(torch.randint(1, 9, (), generator=generator)), 4, generator=generator)
            collector = Collector(taps, rows)
            with torch.no_grad(), collecting(collector):
                net(rows)
            if not torch.equal(collector.features["relu1"].values, net[:3](rows)):
                wrong.append(seed)

    threads = [threading.Thread(target=many, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
