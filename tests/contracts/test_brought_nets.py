"""Nets as they are brought, of other kinds than those of the recipes: from training to a program."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import pack_padded_sequence

import totalcal
from totalcal.errors import ExportError
from totalcal.files.predicting.exported import open_exported
from totalcal.inputs import taken

LENGTH = 12


class Attention(nn.Module):
    """`nn.TransformerEncoder` with its defaults, and a mask that is true where padding is."""

    def __init__(self):
        super().__init__()
        self.words, layer = nn.Embedding(40, 16), nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder, self.classes = nn.TransformerEncoder(layer, 2), nn.Linear(16, 3)

    def forward(self, ids, padding):
        return self.classes(self.encoder(self.words(ids), src_key_padding_mask=padding)[:, 0])


class Recurrent(nn.Module):
    """A GRU in both directions over packed sequences."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, 16, batch_first=True, bidirectional=True)
        self.classes = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 3))

    def forward(self, signal, lengths):
        packed = pack_padded_sequence(signal, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return self.classes(torch.cat(self.gru(packed)[1].unbind(), 1))


class Padded(Recurrent):
    """The same in one direction, over padded rows, read at the last step of each: it has a program."""

    def __init__(self):
        super().__init__()
        self.gru, self.classes = nn.GRU(2, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, signal, lengths):
        states, last = self.gru(signal)[0], (lengths - 1)[:, None, None]
        return self.classes(states.gather(1, last.expand(-1, 1, states.shape[-1])).squeeze(1))


class Temporal(nn.Module):
    """Causal convolutions with normed weights, cut to length, and a shortcut."""

    def __init__(self):
        super().__init__()
        self.first = weight_norm(nn.Conv1d(2, 16, 3, padding=2))
        self.second = weight_norm(nn.Conv1d(16, 16, 3, padding=4, dilation=2))
        self.relu, self.classes = nn.ReLU(), nn.Linear(16, 3)

    def forward(self, signal):
        first = self.relu(self.first(signal.transpose(1, 2))[..., :LENGTH])
        return self.classes((first + self.relu(self.second(first)[..., :LENGTH])).mean(-1))


def texts(count, seed, first=range(1, 30)):
    """The class is in the first word; what pads is a word of its own."""
    noise = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, LENGTH + 1, (count, 1), generator=noise)
    ids = torch.randint(first[0], first[-1] + 1, (count, LENGTH), generator=noise)
    padding = torch.arange(LENGTH) >= lengths
    return {"ids": ids.masked_fill(padding, 39), "padding": padding}, ids[:, 0] % 3


def signals(count, seed, frequency=0.0, with_lengths=True):
    noise = torch.Generator().manual_seed(seed)
    labels, steps = torch.randint(3, (count,), generator=noise), torch.arange(LENGTH)
    lengths = torch.randint(6, LENGTH + 1, (count,), generator=noise)
    turns = (0.4 * (labels + 1) + frequency)[:, None] * steps + torch.rand(count, 1, generator=noise)
    rows = torch.stack([turns.sin(), turns.cos()], 2) + 0.3 * torch.randn(count, LENGTH, 2, generator=noise)
    rows[steps >= lengths[:, None]] = 0
    return ((rows, lengths) if with_lengths else rows), labels


NETS = {
    "attention": (Attention, texts, {"first": range(30, 38)}),
    "recurrent": (Recurrent, signals, {"frequency": 1.6}),
    "padded": (Padded, signals, {"frequency": 1.6}),
    "temporal": (
        Temporal,
        lambda *given, **more: signals(*given, **more, with_lengths=False),
        {"frequency": 1.6},
    ),
}


@pytest.mark.parametrize("name", NETS)
def test_it_is_calibrated_remembered_taught_and_saved(name, tmp_path):
    make, rows, elsewhere = NETS[name]
    train, held_out, test, other = rows(400, 0), rows(300, 1), rows(200, 2), rows(120, 3, **elsewhere)
    torch.manual_seed(0)
    net = make()
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        logits = totalcal.inputs.call(net, train[0])
        F.cross_entropy(logits, train[1]).backward()
        optimizer.step()

    model = totalcal.calibrate(net, train, held_out, progress=False)
    prediction = model.predict(test[0])
    assert (prediction.labels == test[1].numpy()).mean() > 0.7
    assert (prediction.familiarity <= 0.05).double().mean() < 0.12
    assert model.predict(other[0]).familiarity.median() < prediction.familiarity.median() / 2
    few = model.predict(taken(test[0], slice(0, 3)))
    torch.testing.assert_close(few.familiarity, prediction.familiarity[:3])

    model.memorise(taken(other[0], slice(0, 60)), torch.full((60,), 3), "new")
    assert (model.predict(taken(other[0], slice(60, 120))).labels == 3).mean() > 0.6
    model.forget("new")
    model.save(tmp_path / "it.totalcal")
    again = totalcal.load(tmp_path / "it.totalcal", backbone=make()).predict(test[0])
    assert torch.equal(again.probabilities, prediction.probabilities)
    assert torch.equal(again.familiarity, prediction.familiarity)


SLOW = pytest.mark.exhaustive


@pytest.mark.parametrize(
    "name", [pytest.param("attention", marks=SLOW), "padded", pytest.param("temporal", marks=SLOW)]
)
def test_it_is_exported(name, tmp_path):
    make, rows, _ = NETS[name]
    torch.manual_seed(0)
    model = totalcal.calibrate(make(), rows(200, 0), rows(150, 1), progress=False)
    inputs = rows(50, 2)[0]
    totalcal.export(model, tmp_path / "it.pt2", example=taken(inputs, slice(0, 8)))
    arrays = totalcal.inputs.named(inputs, "inputs")
    found = open_exported(tmp_path / "it.pt2").predict({key: part.numpy() for key, part in arrays.items()})
    prediction = model.predict(inputs)
    np.testing.assert_allclose(found["probabilities"], prediction.probabilities, atol=1e-5)
    np.testing.assert_allclose(found["familiarity"], prediction.familiarity, atol=1e-5)


def test_packed_sequences_have_no_program_and_the_message_says_what_has(tmp_path):
    model, rows = totalcal.softmax(Recurrent(), num_classes=3), signals(8, 0)[0]
    with pytest.raises(ExportError, match=r"line \d+: packed = .*give the layer padded rows"):
        totalcal.export(model, tmp_path / "it.pt2", example=rows)
