import errno
import os
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from PIL import Image

from totalcal.errors import InputError, ShapeError, UnknownNameError
from totalcal_lab.corruptions import CORRUPTIONS, SEVERITIES, corrupt, corrupted_blocks, stream
from totalcal_lab.corruptions.kernels import from_grey, to_grey
from totalcal_lab.corruptions.stream import contact_sheet, read_images, save_corrupted

GREY = np.random.default_rng(0).integers(0, 256, size=(150, 28, 28), dtype=np.uint8)


@pytest.mark.parametrize("type", CORRUPTIONS)
def test_a_part_is_corrupted_as_in_the_whole(patches, type):
    whole = corrupt(patches, type, 3, dataset="photographs")
    for start, stop in [(0, 1), (100, 140), (130, 198)]:
        part = corrupt(patches[start:stop], type, 3, dataset="photographs", start=start)
        assert_array_equal(part, whole[start:stop])


@settings(deadline=None, max_examples=10)
@given(
    st.lists(st.integers(1, 149), max_size=4, unique=True),
    st.sampled_from(["fog", "shot_noise", "motion_blur"]),
)
def test_no_cut_into_batches_changes_anything(cuts, type):
    ends = [0, *sorted(cuts), len(GREY)]
    parts = [corrupt(GREY[a:b], type, 5, start=a) for a, b in pairwise(ends)]
    assert_array_equal(np.concatenate(parts), corrupt(GREY, type, 5))


@pytest.mark.parametrize("type", CORRUPTIONS)
def test_the_number_of_threads_changes_nothing(patches, type):
    threads = torch.get_num_threads()
    results = []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            results.append(corrupt(patches[100:140], type, 4))
    finally:
        torch.set_num_threads(threads)
    assert_array_equal(*results)


def test_a_tensor_gives_a_tensor_with_the_same_values():
    corrupted = corrupt(torch.from_numpy(GREY), "snow", 2)
    assert isinstance(corrupted, torch.Tensor)
    assert_array_equal(corrupted.numpy(), corrupt(GREY, "snow", 2))


@pytest.mark.parametrize("type", CORRUPTIONS)
def test_the_layout_in_memory_changes_nothing(few, type):
    channels_first = few[:4].permute(0, 3, 1, 2).contiguous()
    assert_array_equal(corrupt(channels_first.permute(0, 2, 3, 1), type, 3), corrupt(few[:4], type, 3))


@pytest.mark.parametrize("change", [{"seed": 1}, {"dataset": "other"}, {"start": 128}, {"severity": 2}])
def test_every_word_of_the_key_gives_other_draws(change):
    call = {"type": "gaussian_noise", "severity": 1} | change
    white = np.full((2, 32, 32, 3), 128, dtype=np.uint8)
    assert (corrupt(white, **call) != corrupt(white, "gaussian_noise", 1)).mean() > 0.5


@pytest.mark.parametrize("type", CORRUPTIONS)
def test_the_images_that_are_given_stay_as_they_are(few, type):
    images = few[:4].numpy().copy()
    corrupt(images, type, 5)
    assert_array_equal(images, few[:4])


def test_blocks_cover_all_images_in_order():
    blocks = list(corrupted_blocks(GREY, "fog", 1))
    assert [rows for rows, _ in blocks] == [slice(0, 128), slice(128, 150)]
    assert_array_equal(np.concatenate([block for _, block in blocks]), corrupt(GREY, "fog", 1))


@pytest.mark.parametrize("severity", [1, 2, 3])
def test_grey_images_have_no_saturation_to_change(severity):
    assert_array_equal(corrupt(GREY, "saturate", severity), GREY)


def test_strong_saturation_darkens_grey():
    """A grey pixel counts as red: luma keeps 0.299 + 0.701 (1 − offset)."""
    white = np.full((1, 28, 28), 255, dtype=np.uint8)
    for severity, kept in [(4, 0.930), (5, 0.860)]:
        assert corrupt(white, "saturate", severity).mean() / 255 == pytest.approx(kept, abs=0.005)


@pytest.mark.parametrize("type", ["motion_blur", "elastic_transform", "jpeg_compression", "fog"])
def test_grey_is_corrupted_as_three_equal_channels(type):
    in_colour = corrupt(from_grey(torch.from_numpy(GREY)), type, 3)
    assert_array_equal(corrupt(GREY, type, 3), in_colour[..., 1].numpy())


def test_luma_keeps_equal_channels():
    levels = torch.arange(256, dtype=torch.uint8).view(1, 16, 16)
    assert_array_equal(to_grey(from_grey(levels)), levels)


@pytest.mark.parametrize("side", [8, 13, 64])
@pytest.mark.parametrize("type", CORRUPTIONS)
def test_any_side_from_eight_up_works(type, side):
    images = np.random.default_rng(side).integers(0, 256, size=(2, side, side, 3), dtype=np.uint8)
    for severity in (SEVERITIES[0], SEVERITIES[-1]):
        corrupted = corrupt(images, type, severity)
        assert corrupted.shape == images.shape
        assert corrupted.dtype == np.uint8


def test_no_images_give_no_images():
    assert corrupt(GREY[:0], "fog", 1).shape == (0, 28, 28)


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        (GREY.astype(float), InputError, "uint8"),
        (GREY[:, :20], ShapeError, "square"),
        (GREY[:, :7, :7], ShapeError, "at least 8"),
        (GREY[0], ShapeError, "batch"),
        (GREY[..., None], ShapeError, "grey"),
    ],
)
def test_images_of_another_kind_are_refused(images, error, message):
    with pytest.raises(error, match=message):
        corrupt(images, "fog", 1)


def test_an_unknown_type_is_told_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'frost'"):
        corrupt(GREY, "forst", 1)


@pytest.mark.parametrize("severity", [0, 6, 2.5])
def test_severity_is_one_to_five(severity):
    with pytest.raises(InputError, match="severity"):
        corrupt(GREY, "fog", severity)


IMAGES = np.random.default_rng(0).integers(0, 256, size=(130, 28, 28), dtype=np.uint8)


def test_files_are_severity_major_as_in_cifar_10_c(tmp_path):
    files = list(save_corrupted(IMAGES, tmp_path / "new", ["fog", "contrast"], seed=3, dataset="noise"))
    assert [file.name for file in files] == ["fog.npy", "contrast.npy"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["contrast.npy", "fog.npy"]
    foggy = np.load(files[0])
    assert foggy.shape == (5 * 130, 28, 28)
    for severity, part in zip(SEVERITIES, np.split(foggy, 5), strict=True):
        assert_array_equal(part, corrupt(IMAGES, "fog", severity, 3, dataset="noise"))


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room cannot be taken beforehand here")
def test_a_full_disk_is_noticed_before_a_mapped_file_is_written_to(tmp_path, monkeypatch):
    """A page that finds no room on the disk ends the process with a bus error."""
    seen = []

    def blocks(*arguments, **options):
        (unfinished,) = tmp_path.iterdir()
        seen.append(unfinished.stat())
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(stream, "corrupted_blocks", blocks)
    with pytest.raises(OSError, match="no space"):
        list(save_corrupted(IMAGES, tmp_path, ["fog"]))
    assert 512 * seen[0].st_blocks >= seen[0].st_size
    assert list(tmp_path.iterdir()) == []


def test_images_that_are_no_bytes_leave_no_file(tmp_path):
    with pytest.raises(InputError, match="must be bytes"):
        list(save_corrupted(IMAGES / 255, tmp_path / "new", ["fog"]))
    assert not (tmp_path / "new").exists()


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
