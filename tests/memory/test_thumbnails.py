"""A thumbnail is the training picture nearest to its prototype, small, and in the file."""

import pytest
import torch
from torch.nn import functional as F

import totalcal
from totalcal.data.preprocessing import Preprocessing
from totalcal.errors import InputError
from totalcal.memory.thumbnails import Thumbnails


@pytest.fixture(scope="module")
def pictures():
    generator = torch.Generator().manual_seed(0)
    return torch.rand(300, 3, 8, 8, generator=generator), torch.arange(300) % 3


@pytest.fixture(scope="module")
def model(pictures):
    images, labels = pictures
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 20), torch.nn.Linear(20, 3))
    found = totalcal.softmax(net, num_classes=3)
    totalcal.remember(found, (images[:200], labels[:200]), (images[200:], labels[200:]))
    return found


def test_thumbnails_are_the_rows_nearest_to_each_prototype(model, pictures):
    images, labels = pictures[0][:200], pictures[1][:200]
    found = Thumbnails.of(model, (images, labels), batch_size=37)
    tap, layer = model.domain.taps[-1], model.domain.layers[-1]
    units = F.normalize(model.observe(images, [tap]).features[tap.name].values, dim=-1)
    for prototype, picture, label in zip(layer.prototypes, found.pictures, found.labels, strict=True):
        row = int((255 * images - picture).abs().amax((1, 2, 3)).argmin())
        assert (255 * images[row] - picture).abs().max() < 2
        assert label == labels[row]
        distances = (units - prototype).norm(dim=-1)
        assert distances[row] <= distances.min() + 1e-5  # a prototype of two rows lies between them


def test_a_training_row_finds_its_own_thumbnail_first(model, pictures):
    images, labels = pictures[0][:200], pictures[1][:200]
    given = Preprocessing((3, 8, 8), torch.tensor(0.0), torch.tensor(1.0))
    found = Thumbnails.of(model, (images, labels), given)
    exact = (images[:, None] * 255).round().to(torch.uint8)
    for place, picture in list(enumerate(found.pictures))[:10]:
        row = int((exact[:, 0] == picture).flatten(1).all(1).nonzero()[0])
        assert place in found.nearest(model, images[row : row + 1], count=3)[0].tolist()


def test_preprocessing_is_undone_and_large_pictures_become_small():
    images, labels = torch.rand(60, 1, 96, 48), torch.arange(60) % 2
    given = Preprocessing((1, 96, 48), torch.tensor(0.5), torch.tensor(0.25))
    inputs = given(images)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(96 * 48, 2))
    model = totalcal.softmax(net, num_classes=2)
    totalcal.remember(model, (inputs[:40], labels[:40]), (inputs[40:], labels[40:]))
    found = Thumbnails.of(model, (inputs[:40], labels[:40]), given).pictures
    assert found.shape[1:] == (1, 32, 16)
    assert found.float().mean() / 255 == pytest.approx(0.5, abs=0.02)


def test_thumbnails_come_back_with_their_model(model, pictures, tmp_path):
    found = Thumbnails.of(model, (pictures[0][:200], pictures[1][:200]))
    path = tmp_path / "m.totalcal"
    totalcal.save(model, path, thumbnails=found)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 20), torch.nn.Linear(20, 3))
    again = totalcal.load(path, backbone=net)
    assert torch.equal(again.thumbnails.pictures, found.pictures)
    nearest = again.thumbnails.nearest(again.process, pictures[0][:4])
    assert torch.equal(nearest, found.nearest(model, pictures[0][:4]))


def test_what_has_no_thumbnails_is_told(model, pictures):
    with pytest.raises(InputError, match="remember"):
        Thumbnails.of(totalcal.softmax(torch.nn.Linear(4, 2), num_classes=2), pictures)
    rows, labels = torch.randn(60, 4), torch.arange(60) % 2
    table = totalcal.softmax(torch.nn.Linear(4, 2), num_classes=2)
    totalcal.remember(table, (rows[:40], labels[:40]), (rows[40:], labels[40:]))
    with pytest.raises(InputError, match="of pictures"):
        Thumbnails.of(table, (rows, labels))
