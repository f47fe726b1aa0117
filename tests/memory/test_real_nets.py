"""`remember` on nets as people have them: shared activations, packed sequences, wrapped layers."""

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from totalcal import remember, softmax
from totalcal.memory.domain_memory import DomainMemory
from totalcal.memory.rows import Observation
from totalcal.models.process import TuringProcess

CLASSES = 3


def remembered(net: nn.Module, inputs: object, labels: Tensor) -> tuple[TuringProcess, DomainMemory]:
    torch.manual_seed(0)
    process = softmax(net, CLASSES).eval()
    memory = remember(process, (inputs, labels), (inputs, labels), progress=False)
    prediction = process.predict(inputs)
    assert prediction.familiarity.shape == (len(labels),)
    assert bool(prediction.unfamiliarity.isfinite().all())
    return process, memory


def names(memory: DomainMemory) -> list[str]:
    return [tap.name for tap in memory.taps]


PICTURES, LABELS = torch.randn(60, 3, 8, 8), torch.arange(60) % CLASSES


class OneActivation(nn.Module):
    """As in EfficientNet: one activation module behind every layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 12, 3, padding=1, stride=2)
        self.act, self.head = nn.SiLU(), nn.Linear(12, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        maps = self.act(self.second(self.act(self.first(pictures))))
        return self.head(maps.mean((2, 3)))


def test_an_activation_that_serves_several_layers_is_not_read_and_they_are() -> None:
    _, memory = remembered(OneActivation(), PICTURES, LABELS)
    assert names(memory) == ["first", "second", "head (input)"]


def test_an_activation_of_one_width_everywhere_is_not_read_either() -> None:
    act = nn.ReLU()
    net = nn.Sequential(nn.Linear(4, 8), act, nn.Linear(8, 8), act, nn.Linear(8, CLASSES))
    _, memory = remembered(net, torch.randn(60, 4), LABELS)
    assert "1" not in names(memory)
    assert names(memory)[-1] == "4 (input)"


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.states = nn.Embedding(30, 8, padding_idx=0), nn.LSTM(8, 8, batch_first=True)
        self.classes = nn.Linear(8, CLASSES)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.words(ids), lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (last, _) = self.states(packed)
        return self.classes(last[-1])


def test_packed_sequences_are_read_token_by_token_without_their_padding() -> None:
    lengths = 2 + torch.arange(60) % 5
    ids = torch.randint(1, 30, (60, 6)) * (torch.arange(6) < lengths[:, None])
    process, memory = remembered(Packed(), {"ids": ids, "lengths": lengths}, LABELS)
    assert names(memory)[:2] == ["words", "states"]
    seen = process.observe({"ids": ids, "lengths": lengths}, memory.taps).features
    for name in ("words", "states"):
        owners = seen[name].rows
        assert owners is not None
        assert torch.equal(torch.bincount(owners), lengths)


class Norms(nn.Module):
    def __init__(self, wrap: object) -> None:
        super().__init__()
        self.first, self.act = nn.Linear(4, 8), nn.ReLU()
        self.last = wrap(nn.Linear(8, CLASSES))  # type: ignore[operator]

    def forward(self, rows: Tensor) -> Tensor:
        return self.last(self.act(self.first(rows)))


@pytest.mark.parametrize(
    "wrap", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm]
)
def test_a_last_layer_with_computed_weights_is_the_last_layer(wrap: object) -> None:
    _, memory = remembered(Norms(wrap), torch.randn(60, 4), LABELS)
    assert names(memory) == ["inputs", "act"]


def test_a_net_that_gives_log_probabilities_has_no_energy_for_rounding_to_rank() -> None:
    logits = 20 * torch.randn(500, CLASSES, generator=torch.Generator().manual_seed(0))
    observed = Observation({}, torch.zeros(500), logits.log_softmax(-1))
    assert not observed.energy.any()
    raw = Observation({}, torch.zeros(500), logits)
    torch.testing.assert_close(raw.energy, -logits.logsumexp(-1))


def test_computed_weights_before_it_change_nothing() -> None:
    net = Norms(nn.Identity())
    net.first = nn.utils.parametrizations.spectral_norm(net.first)
    _, memory = remembered(net, torch.randn(60, 4), LABELS)
    assert names(memory) == ["inputs", "act"]


@pytest.mark.filterwarnings("ignore")
def test_a_quantised_net_is_remembered() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.ao.quantization.quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)
    _, memory = remembered(quantised, torch.randn(60, 4), LABELS)
    assert names(memory) == ["inputs", "1"]


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile])
def test_what_compiles_or_spreads_a_net_is_left_out(wrap: object) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    _, memory = remembered(wrap(net), torch.randn(60, 4), LABELS)  # type: ignore[operator]
    assert names(memory) == ["inputs", "1"]


class Window(nn.Module):
    """Tokens in rows and columns, channels last, as in a Swin transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens + self.mix(self.norm(tokens))


class Windows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 10, 2, 2)
        self.blocks = nn.ModuleList([Window(10), Window(10)])
        self.pool, self.classes = nn.AdaptiveAvgPool1d(1), nn.Linear(10, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        tokens = self.patches(pictures).permute(0, 2, 3, 1)
        for block in self.blocks:
            tokens = block(tokens)
        return self.classes(self.pool(tokens.flatten(1, 2).mT).flatten(1))


def test_tokens_that_lie_in_rows_and_columns_are_tokens() -> None:
    process, memory = remembered(Windows(), PICTURES, LABELS)
    block = next(tap for tap in memory.taps if tap.name == "blocks.1")
    assert (block.kind, block.width, block.grid) == ("tokens", 10, True)
    assert len(process.observe(PICTURES, memory.taps).features["blocks.1"].values) == 60 * 16
    assert memory.taps[-1].kind == "vector"
    assert memory.taps[-1].width == 10


def test_a_swin_transformer_of_hugging_face_is_remembered() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.SwinConfig(
        image_size=16,
        patch_size=2,
        embed_dim=8,
        depths=[1, 1],
        num_heads=[1, 2],
        window_size=4,
        num_labels=CLASSES,
    )

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.swin = transformers.SwinForImageClassification(config)

        def forward(self, pictures: Tensor) -> Tensor:
            logits: Tensor = self.swin(pictures).logits
            return logits

    _, memory = remembered(Classifier(), torch.randn(60, 3, 16, 16), LABELS)
    assert memory.taps[-1].kind == "vector"
    assert memory.taps[-1].width == 16
