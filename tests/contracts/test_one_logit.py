"""A net with one logit, as binary cross-entropy takes it: two classes in every way that a model is used."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import totalcal
from totalcal.errors import InputError
from totalcal.files.predicting.exported import open_exported


class Binary(nn.Module):
    def __init__(self, squeezes=False):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
        self.squeezes = squeezes

    def forward(self, rows):
        logits = self.layers(rows)
        return logits.squeeze() if self.squeezes else logits  # of one row, no axis is left


def binary_rows(count, seed):
    noise = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, 4, generator=noise)
    return rows, (rows[:, 0] + 0.7 * torch.randn(count, generator=noise) > 0).float()


TRAIN, HELD_OUT, TEST = binary_rows(300, 0), binary_rows(300, 1), binary_rows(200, 2)


@pytest.fixture(params=[False, True], ids=["column", "squeezed"])
def net(request):
    torch.manual_seed(0)
    net = Binary(request.param)
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(net(TRAIN[0]).flatten(), TRAIN[1]).backward()
        optimizer.step()
    return net


def test_its_probabilities_are_the_sigmoid(net):
    found = totalcal.softmax(net, num_classes=2).predict(TEST[0]).probabilities
    assert_allclose(found[:, 1], torch.sigmoid(net(TEST[0])).flatten().detach(), atol=1e-6)
    one = totalcal.softmax(net, num_classes=2).predict(TEST[0][:1]).probabilities
    assert_allclose(one, found[:1], atol=1e-6)


def test_it_is_calibrated_remembered_taught_saved_and_exported(net, tmp_path):
    model = totalcal.calibrate(net, TRAIN, HELD_OUT, classes=["no", "yes"], progress=False)
    prediction = model.predict(TEST[0])
    assert set(prediction.labels) == {"no", "yes"}
    assert model.report(TEST).labels.tolist() == TEST[1].tolist()
    model.save(tmp_path / "binary.totalcal")
    again = totalcal.load(tmp_path / "binary.totalcal", backbone=Binary(net.squeezes)).predict(TEST[0])
    assert torch.equal(again.probabilities, prediction.probabilities)
    totalcal.export(model, tmp_path / "binary.onnx", example=TEST[0][:8])
    exported = open_exported(tmp_path / "binary.onnx").predict(TEST[0].numpy())
    assert_allclose(exported["probabilities"], prediction.probabilities, atol=1e-5)
    model.memorise(TEST[0][:60] + torch.tensor([0.0, 9.0, 9.0, 9.0]), ["odd"] * 60)
    odd = model.predict(TEST[0] + torch.tensor([0.0, 9.0, 9.0, 9.0])).labels == "odd"
    assert odd.mean() > 0.75


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_labels_are_taken_as_binary_cross_entropy_takes_them(net, shape):
    def loader(rows):
        return DataLoader(TensorDataset(rows[0], rows[1].reshape(shape)), 64)

    models = [
        totalcal.calibrate(net, TRAIN, HELD_OUT, progress=False),
        totalcal.calibrate(net, loader(TRAIN), loader(HELD_OUT), progress=False),
        totalcal.calibrate(
            net, (TRAIN[0], TRAIN[1].numpy()), (HELD_OUT[0], HELD_OUT[1].numpy().astype(bool)), progress=False
        ),
    ]
    first, *others = (model.predict(TEST[0]) for model in models)
    for other in others:
        assert_allclose(other.probabilities, first.probabilities, atol=1e-6)


def test_probabilities_of_a_sigmoid_are_told_from_logits(net):
    with pytest.raises(InputError, match="sigmoid"):
        totalcal.calibrate(nn.Sequential(net, nn.Sigmoid()), TRAIN, HELD_OUT, progress=False)
    weak = nn.Linear(4, 1)  # its logits all lie between 0 and 1, as probabilities do
    nn.init.zeros_(weak.weight)
    nn.init.constant_(weak.bias, 0.8)
    mostly = torch.arange(300) % 10 < 7
    model = totalcal.calibrate(weak, (TRAIN[0], mostly), (HELD_OUT[0], mostly), progress=False)
    assert_allclose(model.predict(TEST[0]).probabilities[:, 1], 0.69, atol=0.03)


@pytest.mark.parametrize("name", ["etp", "bnn", "edl"])
def test_models_of_the_family_train_around_it_and_predict_by_draws_and_moments(name, net):
    model = getattr(totalcal, name)(net, num_classes=2)
    totalcal.fit(model, TRAIN, epochs=3, progress=False)
    many = model.predict(TEST[0], draws=400, seed=1).probabilities
    assert ((many[:, 1] > 0.5) == TEST[1].bool()).double().mean() > 0.7
    assert_allclose(model.predict(TEST[0], draws="moments").probabilities, many, atol=0.03)
    assert np.isfinite(model.predict(TEST[0][:1], draws=3).probabilities).all()
