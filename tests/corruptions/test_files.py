import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from totalcal.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from totalcal.corruptions.stream import contact_sheet, read_images, save_corrupted
from totalcal.errors import InputError

IMAGES = np.random.default_rng(0).integers(0, 256, size=(130, 28, 28), dtype=np.uint8)


def test_files_are_severity_major_as_in_cifar_10_c(tmp_path):
    files = list(save_corrupted(IMAGES, tmp_path / "new", ["fog", "contrast"], seed=3, dataset="noise"))
    assert [file.name for file in files] == ["fog.npy", "contrast.npy"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["contrast.npy", "fog.npy"]
    foggy = np.load(files[0])
    assert foggy.shape == (5 * 130, 28, 28)
    for severity, part in zip(SEVERITIES, np.split(foggy, 5), strict=True):
        assert_array_equal(part, corrupt(IMAGES, "fog", severity, 3, dataset="noise"))


def test_arrays_are_read_from_npy_and_npz(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    np.savez(tmp_path / "b.npz", images=IMAGES, labels=np.arange(130))
    for name in ("a.npy", "b.npz"):
        assert_array_equal(read_images(tmp_path / name), IMAGES)


def test_a_npz_without_images_is_told_what_it_holds(tmp_path):
    np.savez(tmp_path / "b.npz", x=IMAGES)
    with pytest.raises(InputError, match="holds x, but no array named images"):
        read_images(tmp_path / "b.npz")


def test_a_picture_is_cut_square_and_resized(tmp_path):
    Image.new("RGBA", (90, 60), (10, 20, 30, 255)).save(tmp_path / "p.png")
    picture = read_images(tmp_path / "p.png", side=48)
    assert picture.shape == (1, 48, 48, 3)
    assert picture[0, 0, 0].tolist() == [10, 20, 30]


@pytest.mark.parametrize("image", [IMAGES[0], np.repeat(IMAGES[0][..., None], 3, -1)], ids=["grey", "colour"])
def test_the_sheet_has_a_row_a_type_and_a_column_a_severity(image):
    sheet = np.asarray(contact_sheet(image))
    height, width, _ = sheet.shape
    assert height == 30 * len(CORRUPTIONS)
    row = list(CORRUPTIONS).index("contrast")
    last = sheet[30 * row : 30 * row + 28, width - 30 : width - 2]
    expected = corrupt(image[None], "contrast", 5)[0]
    assert_array_equal(last, expected if expected.ndim == 3 else np.repeat(expected[..., None], 3, -1))
