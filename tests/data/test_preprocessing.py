"""Pictures as people have them: turned, transparent, of 16 bits, of any size."""

import csv

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from PIL import Image
from typer.testing import CliRunner

from totalcal import etp, save
from totalcal.cli import app
from totalcal.data import from_image_folder
from totalcal.data.preprocessing import PictureSteps, Preprocessing
from totalcal.errors import DataError, InputError, ShapeError, UnreadableFileError
from totalcal.files.reading import read_picture
from totalcal.files.saved import load
from totalcal.nets import small_convnet


def pixels(path, mode="RGB"):
    return np.asarray(read_picture(path, mode)).astype(int)


@pytest.fixture
def photo():
    """Uneven, so that no rotation or crop goes unseen."""
    return np.random.default_rng(0).integers(0, 256, (12, 20, 3), dtype=np.uint8)


@pytest.mark.parametrize(("orientation", "turn"), [(3, 2), (6, 3), (8, 1)])
def test_a_picture_is_turned_as_its_camera_was(photo, orientation, turn, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(photo).save(tmp_path / "a.png", exif=exif)
    assert (pixels(tmp_path / "a.png") == np.rot90(photo, turn)).all()


def test_sixteen_bits_become_eight_by_their_range(tmp_path):
    values = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16)
    for name in ("a.png", "a.tif"):
        Image.fromarray(values).save(tmp_path / name)
        assert (pixels(tmp_path / name, "L").ravel() == np.arange(256)).all()


def test_bits_without_a_known_range_are_refused(tmp_path):
    Image.fromarray(np.zeros((4, 4), np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(UnreadableFileError, match="white"):
        read_picture(tmp_path / "a.tif")


def test_what_is_transparent_stands_on_white(tmp_path):
    clear = np.zeros((4, 4, 4), np.uint8)
    clear[:2] = (255, 0, 0, 255)
    clear[2:, :, 3] = 0
    Image.fromarray(clear).save(tmp_path / "a.png")
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([0, 0, 0, 255, 0, 0])
    palette.paste(1, (0, 0, 4, 2))
    palette.save(tmp_path / "b.png", transparency=0)
    for name in ("a.png", "b.png"):
        assert pixels(tmp_path / name)[[0, 3], 0].tolist() == [[255, 0, 0], [255, 255, 255]]


def test_a_crop_keeps_the_form_and_a_stretch_the_whole(tmp_path):
    wide = np.zeros((10, 30), np.uint8)
    wide[:, 10:20] = 255
    Image.fromarray(wide).save(tmp_path / "a.png")
    assert (PictureSteps((10, 10), colour=False, crop=True)(tmp_path / "a.png") == 255).all()
    assert PictureSteps((10, 10), colour=False)(tmp_path / "a.png")[5, [0, 5, 9]].tolist() == [0, 255, 0]


@pytest.mark.parametrize("size", [(0, 4), (4,), (4, 10**9), ("a", 4)])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(InputError, match="size"):
        PictureSteps(size)


@pytest.fixture
def folder(tmp_path):
    """Two classes of pictures of many sizes and modes, and what programs leave beside them."""
    draw = np.random.default_rng(1)
    for name, level in (("dark", 0), ("light", 128)):
        (tmp_path / "train" / name).mkdir(parents=True)
        for index in range(6):
            shape = (draw.integers(8, 40), draw.integers(8, 40), 3)
            values = draw.integers(level, level + 128, shape, dtype=np.uint8)
            Image.fromarray(values).save(tmp_path / "train" / name / f"{index}.png")
    (tmp_path / "train" / ".ipynb_checkpoints").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "train" / ".ipynb_checkpoints" / "0-checkpoint.png")
    (tmp_path / "train" / "dark" / "._0.png").write_bytes(b"finder")
    return tmp_path / "train"


def test_checkpoints_of_notebooks_are_no_class(folder):
    found = from_image_folder(folder, (8, 8))
    assert found.classes == ("dark", "light")
    assert len(found) == 12


def test_a_corrupt_picture_is_skipped_and_named_unless_strict(folder):
    (folder / "dark" / "3.png").write_bytes(b"no picture")
    found = from_image_folder(folder, (8, 8), strict=False)
    assert len(found) == 11
    assert "3.png" in found.skipped[0]
    with pytest.raises(DataError, match=r"3\.png.*strict=False"):
        from_image_folder(folder, (8, 8))


@pytest.mark.parametrize("crop", [False, True])
def test_new_pictures_are_treated_as_the_training_pictures_were(folder, crop, tmp_path):
    train = from_image_folder(folder, (8, 8), colour=False, crop=crop)
    torch.manual_seed(0)
    model = etp(small_convnet(2), 2).eval()
    save(model, tmp_path / "it.totalcal", classes=train.classes, preprocessing=train.preprocessing)
    assert load(tmp_path / "it.totalcal").preprocessing.pictures == train.steps
    output = tmp_path / "out.csv"
    command = ["predict", str(tmp_path / "it.totalcal"), str(folder / "light"), "-o", str(output), "--strict"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    with output.open(newline="") as file:
        found = [float(line["p(light)"]) for line in csv.DictReader(file)]
    inputs, labels = train.whole()
    expected = model.predict(inputs[labels == 1]).probabilities[:, 1]
    assert_allclose(found, expected, rtol=1e-4)


def test_steps_that_do_not_give_what_the_model_takes_are_refused():
    with pytest.raises(ShapeError, match=r"\(3, 8, 8\)"):
        Preprocessing((1, 8, 8), torch.zeros(()), torch.ones(()), pictures=PictureSteps((8, 8)))


@pytest.mark.parametrize(
    ("mean", "scale"),
    [
        (torch.zeros(3), torch.ones(4)),
        (torch.zeros(2, 4), torch.ones(4)),
        (torch.zeros(4), torch.tensor([1.0, 0.0, 1.0, 1.0])),
        (torch.tensor(float("nan")), torch.ones(4)),
        (torch.zeros(4), torch.tensor(float("inf"))),
    ],
)
def test_what_no_row_can_be_standardised_by_is_refused_at_once(mean, scale):
    with pytest.raises(InputError):
        Preprocessing((4,), mean, scale)
