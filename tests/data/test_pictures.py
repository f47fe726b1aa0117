import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import Flatten, Linear, Sequential

import totalcal
from totalcal.data import from_image_folder
from totalcal.errors import DataError, ShapeError


@pytest.fixture
def folder(tmp_path):
    for name, colour in (("cat", (255, 0, 0)), ("ant", (0, 0, 255))):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for index in range(2):
            Image.new("RGB", (10 + index, 12), colour).save(tmp_path / "pictures" / name / f"{index}.png")
    (tmp_path / "pictures" / "cat" / "notes.txt").write_text("not a picture")
    return tmp_path / "pictures"


def test_an_image_folder_gives_pictures_of_one_size_and_its_classes(folder):
    pictures = from_image_folder(folder, size=(6, 5))
    assert pictures.classes == ("ant", "cat")
    assert pictures.labels.tolist() == [0, 0, 1, 1]
    assert pictures.images.shape == (4, 6, 5, 3)
    assert pictures.images[0, 0, 0].tolist() == [0, 0, 255]


def test_pictures_deeper_in_the_folder_of_a_class_are_its_pictures(folder):
    (folder / "ant" / "2024" / ".ipynb_checkpoints").mkdir(parents=True)
    for place in ("2024", "2024/.ipynb_checkpoints"):
        Image.new("RGB", (4, 4)).save(folder / "ant" / place / "9.png")
    assert from_image_folder(folder, size=(4, 4)).labels.tolist() == [0, 0, 0, 1, 1]


def test_a_folder_without_pictures_is_no_class(folder):
    (folder / "bee").mkdir()
    (folder / "bee" / "notes.txt").write_text("no bees yet")
    with pytest.raises(DataError, match=r"bee .*strict=False"):
        from_image_folder(folder, size=(4, 4))
    found = from_image_folder(folder, size=(4, 4), strict=False)
    assert found.classes == ("ant", "cat")
    assert "bee" in found.skipped[0]


def test_a_test_folder_follows_the_classes_and_the_scaling_of_training(folder):
    train = from_image_folder(folder, size=(4, 4))
    for file in (folder / "ant").iterdir():
        file.unlink()
    test = from_image_folder(folder, size=(4, 4), like=train)
    assert test.labels.tolist() == [1, 1]
    assert torch.equal(test.mean, train.mean)
    assert torch.equal(test.deviation, train.deviation)


def test_a_test_folder_is_treated_as_training_was_and_has_its_numbers(folder):
    train = from_image_folder(folder, size=(4, 6), colour=False, crop=True)
    shutil.rmtree(folder / "ant")
    shutil.copytree(folder / "cat", folder / "bee")
    test = from_image_folder(folder, size=(4, 6), like=train)
    assert (test.steps, test.classes) == (train.steps, ("ant", "cat"))
    assert test.labels.tolist() == [-1, -1, 1, 1]  # bees are of no class
    with pytest.raises(ShapeError, match="size"):
        from_image_folder(folder, size=(8, 8), like=train)


def test_a_folder_without_pictures_is_refused(tmp_path):
    with pytest.raises(DataError, match="no pictures"):
        from_image_folder(tmp_path, size=(4, 4))


def test_a_broken_picture_is_named(folder):
    (folder / "ant" / "0.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"0\.png"):
        from_image_folder(folder, size=(4, 4))


@pytest.mark.parametrize("name", ["gone", "file"])
def test_what_is_no_folder_of_pictures_is_named(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=name):
        from_image_folder(tmp_path / name, size=(8, 8))


def test_batches_are_scaled_as_numpy_scales_them(folder):
    pictures = from_image_folder(folder, size=(6, 5))
    pixels = pictures.images.numpy() / 255
    deviation = np.where(pixels.std((0, 1, 2)) > 0, pixels.std((0, 1, 2)), 1)
    expected = ((pixels - pixels.mean((0, 1, 2))) / deviation).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(pictures.whole().inputs, expected, rtol=1e-5, atol=1e-6)
    in_turn = torch.cat([batch.inputs for batch in pictures.batches(3)])
    assert torch.equal(in_turn, pictures.whole().inputs)
    shuffled = torch.cat([batch.labels for batch in pictures.batches(3, torch.Generator().manual_seed(1))])
    assert torch.equal(shuffled.sort().values, pictures.labels)


def test_fit_and_evaluate_take_a_folder(folder):
    pictures = from_image_folder(folder, size=(4, 4))
    model = totalcal.softmax(Sequential(Flatten(), Linear(48, 2)), num_classes=2)
    totalcal.fit(model, pictures, epochs=1, batch_size=2, progress=False)
    verdict = totalcal.evaluate(model, pictures, {"the same": pictures}, batch_size=3)
    assert verdict.examples == len(pictures)
    assert verdict.nll == pytest.approx(totalcal.evaluate(model, tuple(pictures.whole())).nll)
