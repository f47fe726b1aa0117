import numpy as np
import pytest
from PIL import Image

from totalcal.data.readers import read_tiny_imagenet
from totalcal.errors import DataError


@pytest.fixture
def pictures(tmp_path):
    images = tmp_path / "val" / "images"
    images.mkdir(parents=True)
    (tmp_path / "wnids.txt").write_text("n02\nn01\n")
    (tmp_path / "val" / "val_annotations.txt").write_text(
        "val_0.JPEG\tn01\t0\t0\t9\t9\nval_1.JPEG\tn02\t0\t0\t9\t9\n"
    )
    Image.new("RGB", (64, 64), (200, 100, 50)).save(images / "val_0.JPEG", quality=95)
    Image.new("L", (64, 64), 77).save(images / "val_1.JPEG", quality=95)
    return tmp_path


def test_grey_pictures_become_colour_and_labels_are_places_in_the_list(pictures):
    arrays = read_tiny_imagenet(pictures, "test")
    assert arrays.inputs.shape == (2, 64, 64, 3)
    assert arrays.labels.tolist() == [1, 0]
    np.testing.assert_allclose(arrays.inputs[0, 5, 5], [200, 100, 50], atol=3)  # JPEG is not exact
    np.testing.assert_allclose(arrays.inputs[1, 5, 5], [77, 77, 77], atol=2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("../../secret.JPEG\tn01", "expected a file name"),
        ("val_0.JPEG", "expected a file name"),
        ("val_0.JPEG\tn99", "which wnids.txt does not"),
        ("val_9.JPEG\tn01", "there is no file .*val_9"),
    ],
)
def test_a_hostile_or_broken_table_is_refused(pictures, line, message):
    (pictures / "val" / "val_annotations.txt").write_text(line + "\n")
    with pytest.raises(DataError, match=message):
        read_tiny_imagenet(pictures, "test")


def test_a_picture_of_another_size_is_refused(pictures):
    Image.new("RGB", (63, 64)).save(pictures / "val" / "images" / "val_1.JPEG")
    with pytest.raises(DataError, match="63 × 64"):
        read_tiny_imagenet(pictures, "test")


def test_a_truncated_picture_is_refused(pictures):
    path = pictures / "val" / "images" / "val_0.JPEG"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="cannot be read as a picture"):
        read_tiny_imagenet(pictures, "test")
