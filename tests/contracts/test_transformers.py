"""Transformers as people have them: an encoder called as Hugging Face's are, and one for pictures."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import totalcal
from totalcal.errors import InputError
from totalcal.parts.sampling import stochastic_layers

ROWS, CLASSES, WIDTH = 40, 3, 8


def blocks():
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class TextClassifier(nn.Module):
    """BERT in small: words and places, masked attention, a pooler, a classifier, an output object."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(30, WIDTH, padding_idx=0), nn.Embedding(6, WIDTH)
        self.encoder, self.pooler = blocks(), nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.classifier = nn.Linear(WIDTH, CLASSES)

    def forward(self, input_ids, attention_mask):
        embedded = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        states = self.encoder(embedded, src_key_padding_mask=attention_mask == 0)
        return SimpleNamespace(logits=self.classifier(self.pooler(states[:, 0])), hidden_states=states)


class PictureClassifier(nn.Module):
    """A vision transformer: patches, a class token, a norm, a classifier."""

    def __init__(self):
        super().__init__()
        self.patches, self.token = nn.Conv2d(1, WIDTH, 4, 4), nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.encoder, self.norm = blocks(), nn.LayerNorm(WIDTH)
        self.classifier = nn.Linear(WIDTH, CLASSES)

    def forward(self, pictures):
        patches = self.patches(pictures).flatten(2).transpose(1, 2)
        states = self.encoder(torch.cat([self.token.expand(len(pictures), -1, -1), patches], 1))
        return self.classifier(self.norm(states[:, 0]))


def texts():
    noise = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 30, (ROWS, 6), generator=noise)
    mask = (torch.arange(6) < torch.randint(2, 7, (ROWS, 1), generator=noise)).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def pictures():
    return torch.randn(ROWS, 1, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(params=[(TextClassifier, texts), (PictureClassifier, pictures)], ids=["text", "pictures"])
def case(request):
    torch.manual_seed(0)
    make, inputs = request.param
    return make(), inputs(), torch.arange(ROWS) % CLASSES


@pytest.mark.parametrize("name", ["etp", "bnn"])
def test_a_transformer_is_a_backbone(case, name):
    net, inputs, labels = case
    model = getattr(totalcal, name)(net, num_classes=CLASSES)
    totalcal.fit(model, (inputs, labels), epochs=1, batch_size=20, progress=False)
    first, second = (model.train().predict(inputs, seed=1) for _ in range(2))
    assert torch.equal(first.probabilities, second.probabilities)  # no dropout: evaluation mode for the pass
    assert all(part.training for part in model.modules())
    rows = model.predict(inputs).probabilities
    few = totalcal.inputs.taken(inputs, slice(0, 7)) if isinstance(inputs, dict) else inputs[:7]
    torch.testing.assert_close(model.predict(few).probabilities, rows[:7], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["etp", "bnn"])
def test_the_last_layer_alone_draws_and_learns_behind_a_frozen_rest(case, name):
    net, inputs, labels = case
    model = getattr(totalcal, name)(net, num_classes=CLASSES, layers="*.classifier")
    assert stochastic_layers(model.backbone) == [model.backbone.classifier]
    before = {key: value.clone() for key, value in model.backbone.state_dict().items()}
    history = totalcal.fit(
        model, (inputs, labels), epochs=2, freeze_backbone=True, validation=(inputs, labels), progress=False
    )
    changed = {
        key for key, value in model.backbone.state_dict().items() if not torch.equal(value, before[key])
    }
    weights = ("weight_mean", "weight_log_variance", "bias")
    assert changed == {f"classifier.{weight}" for weight in weights}
    assert history.epochs[-1].weight_kl > 0
    seen = model.predict(inputs, draws=200, seed=0)
    assert float(seen.decompose().reducible.sum()) > 0


def test_a_layer_that_draws_before_the_end_cannot_be_frozen(case):
    net, inputs, labels = case
    first = "pooler.0" if isinstance(net, TextClassifier) else "encoder.layers.0.linear1"
    for layers, words in ((first, "is not its last"), ("linear", r"layers of this one do: .*, classifier\.")):
        model = totalcal.etp(net, num_classes=CLASSES, layers=layers)
        with pytest.raises(InputError, match=words):
            totalcal.fit(model, (inputs, labels), epochs=1, freeze_backbone=True, progress=False)
