"""Nets as people write them: lengths in Python's own words, attention, windows that move."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import totalcal
from totalcal.errors import ExportError
from totalcal.files.exporting.program import attention
from totalcal.files.predicting.exported import open_exported

ROWS = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))


class WithToken(nn.Module):
    """Puts one token of its own beside each row: its number of rows is Python's `len`."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(16, 3)
        self.token = nn.Parameter(torch.randn(1, 8))

    def hidden(self, rows):
        return torch.relu(self.first(rows))

    def forward(self, rows):
        hidden = self.hidden(rows).view(len(rows), -1)
        chosen = hidden[torch.arange(len(hidden))]
        return self.last(torch.cat([chosen, self.token.expand(len(hidden), -1)], 1))


class RowByRow(WithToken):
    def forward(self, rows):
        hidden = torch.stack([row.clone() for row in self.hidden(rows)])
        return self.last(torch.cat([hidden, hidden], 1))


class Rounded(WithToken):
    def hidden(self, rows):
        return super().hidden(rows).reshape(int(rows.shape[0]), 8)


def test_a_net_that_asks_for_the_length_of_its_rows_takes_any_number_of_them(tmp_path):
    model = totalcal.softmax(WithToken(), num_classes=3)
    totalcal.export(model, tmp_path / "model.pt2", example=ROWS[:8])
    for rows in (ROWS, ROWS[:1]):
        found = open_exported(tmp_path / "model.pt2").predict(rows.numpy())["probabilities"]
        np.testing.assert_allclose(found, model.predict(rows).probabilities, atol=1e-6)


@pytest.mark.parametrize(("net", "line"), [(RowByRow, "for row in"), (Rounded, r"int\(rows")])
def test_the_line_that_takes_the_number_of_rows_for_a_constant_is_named(net, line, tmp_path):
    with pytest.raises(ExportError, match=rf"test_nets\.py, line \d+: .*{line}"):
        totalcal.export(totalcal.softmax(net(), num_classes=3), tmp_path / "it.pt2", example=ROWS[:8])


class NearestCentre(WithToken):
    """Distances to centres, for which torch chooses another way from 25 rows on."""

    def __init__(self):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(3, 8))

    def forward(self, rows):
        return -torch.cdist(self.hidden(rows), self.centres)


def test_a_net_of_distances_takes_any_number_of_rows(tmp_path):
    model = totalcal.softmax(NearestCentre(), num_classes=3)
    totalcal.export(model, tmp_path / "model.pt2", example=ROWS[:8])
    for rows in (ROWS, ROWS[:1]):
        found = open_exported(tmp_path / "model.pt2").predict(rows.numpy())["probabilities"]
        np.testing.assert_allclose(found, model.predict(rows).probabilities, atol=1e-5)


class OfSomeRows(WithToken):
    """As in a mixture of experts: what a row passes depends on its values."""

    def hidden(self, rows):
        hidden = super().hidden(rows)
        chosen = (hidden[:, 0] > 0).nonzero()[:, 0]
        return hidden.index_add(0, chosen, hidden[chosen]) if chosen.shape[0] else hidden


def test_a_net_whose_steps_depend_on_values_is_refused_in_one_message_and_nothing_else(tmp_path, capfd):
    with pytest.raises(ExportError, match=r"test_nets\.py, line \d+: return hidden\.index_add"):
        totalcal.export(totalcal.softmax(OfSomeRows(), num_classes=3), tmp_path / "it.pt2", example=ROWS[:8])
    assert "".join(capfd.readouterr()) == ""


@pytest.mark.parametrize("kind", ["none", "truth", "numbers", "causal", "groups", "nothing"])
def test_attention_in_single_steps_is_that_of_torch(kind):
    noise = torch.Generator().manual_seed(1)
    query, key, value = torch.randn(3, 2, 4, 5, 6, generator=noise, dtype=torch.float64).unbind()
    options = {
        "none": {"scale": 0.3},
        "truth": {"attn_mask": torch.rand(2, 1, 5, 5, generator=noise) < 0.7},
        "numbers": {"attn_mask": torch.randn(5, 5, generator=noise, dtype=torch.float64)},
        "causal": {"is_causal": True},
        "groups": {"enable_gqa": True},
        "nothing": {"attn_mask": torch.tensor([False] + [True] * 4)[:, None].expand(5, 5)},
    }[kind]
    if kind == "groups":
        key, value = key[:, :2], value[:, :2]
    expected = F.scaled_dot_product_attention(query, key, value, **options)
    torch.testing.assert_close(attention(query, key, value, **options), expected)


@pytest.mark.parametrize("name", ["ViT", "Swin"])
def test_transformers_of_pictures_are_exported(name, tmp_path):
    transformers = pytest.importorskip("transformers", reason="the extra `test` brings transformers")
    size = {"image_size": 8, "num_labels": 3, "patch_size": 2}
    if name == "ViT":
        blocks = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
        net = transformers.ViTForImageClassification(transformers.ViTConfig(**size, **blocks))
    else:
        blocks = {"embed_dim": 4, "depths": [2, 1], "num_heads": [2, 2], "window_size": 2}
        net = transformers.SwinForImageClassification(transformers.SwinConfig(**size, **blocks))
    pictures, model = torch.randn(12, 3, 8, 8), totalcal.softmax(net, num_classes=3)
    totalcal.export(model, tmp_path / "model.onnx", example=pictures[:8])
    found = open_exported(tmp_path / "model.onnx").predict(pictures.numpy())["probabilities"]
    np.testing.assert_allclose(found, model.predict(pictures).probabilities, atol=1e-5)
