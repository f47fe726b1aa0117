"""The official formats, written in small by the tests themselves."""

import contextlib
import gzip
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat

from totalcal.errors import DataError
from totalcal_lab.data import readers
from totalcal_lab.data.readers import (
    cifar_reader,
    idx_reader,
    read_idx,
    read_records,
    read_svhn,
    read_tiny_imagenet,
    read_votes,
)

HEADER = struct.pack(">HBB", 0, 8, 3)


@pytest.mark.parametrize("compress", [True, False])
def test_it_reads_what_the_format_says(tmp_path, draw, write_idx, compress):
    images, labels = draw.integers(0, 256, (5, 4, 3)), np.array([0, 9, 3, 3, 1])
    write_idx(tmp_path, images, labels, compress=compress)
    arrays = idx_reader(10)(tmp_path, "test")
    np.testing.assert_array_equal(arrays.inputs, images)
    np.testing.assert_array_equal(arrays.labels, labels)
    assert (arrays.inputs.dtype, arrays.labels.dtype) == (np.uint8, np.int64)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00\x08",
        b"\x00\x00\x0d\x01" + bytes(8),  # floats
        HEADER + struct.pack(">3I", 2, 2, 2) + bytes(7),  # one byte short
        HEADER + struct.pack(">3I", 2, 2, 2) + bytes(9),  # one byte long
        HEADER + struct.pack(">I", 2),  # sizes cut off
        HEADER + struct.pack(">3I", *[2**32 - 1] * 3) + bytes(8),  # announces 8e28 bytes
    ],
)
def test_it_refuses_what_is_damaged(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(DataError, match="file"):
        read_idx(tmp_path / "file")


@settings(deadline=None, max_examples=50)
@given(data=st.binary(max_size=64))
def test_no_bytes_make_it_do_anything_but_read_or_refuse(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("idx") / "file"
    path.write_bytes(b"\x00\x00\x08" + data)
    with contextlib.suppress(DataError):
        assert read_idx(path).size > 0


def test_a_file_that_swells_when_uncompressed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MOST_BYTES", 10_000)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(20_000)))
    with pytest.raises(DataError, match="more than 10000 bytes"):
        read_idx(tmp_path / "bomb.gz")


@pytest.mark.parametrize(("count", "label"), [(4, 0), (5, 10)])
def test_labels_that_do_not_fit_are_refused(tmp_path, write_idx, count, label):
    write_idx(tmp_path, np.zeros((5, 2, 2)), np.full(count, label))
    with pytest.raises(DataError, match="labels"):
        idx_reader(10)(tmp_path, "test")


def record(label: bytes, red: int, green: int, blue: int) -> bytes:
    return label + bytes([red]) * 1024 + bytes([green]) * 1024 + bytes([blue]) * 1024


def test_planes_become_pixels_and_files_follow_each_other(tmp_path):
    (tmp_path / "a.bin").write_bytes(record(b"\x01", 10, 20, 30) + record(b"\x02", 40, 50, 60))
    (tmp_path / "b.bin").write_bytes(record(b"\x03", 70, 80, 90))
    arrays = cifar_reader({"train": ("a.bin", "b.bin")}, label_bytes=1, num_classes=10)(tmp_path, "train")
    assert arrays.inputs.shape == (3, 32, 32, 3)
    assert arrays.inputs[:, 0, 0].tolist() == [[10, 20, 30], [40, 50, 60], [70, 80, 90]]
    assert arrays.labels.tolist() == [1, 2, 3]


def test_rows_come_before_columns(tmp_path):
    pixels = np.arange(1024) % 251
    (tmp_path / "a.bin").write_bytes(b"\x00" + pixels.astype(np.uint8).tobytes() * 3)
    image = read_records(tmp_path / "a.bin", 1, 10).inputs[0, :, :, 0]
    np.testing.assert_array_equal(image, pixels.reshape(32, 32))


def test_of_two_label_bytes_the_fine_one_counts(tmp_path):
    (tmp_path / "a.bin").write_bytes(record(bytes([4, 99]), 0, 0, 0))
    assert read_records(tmp_path / "a.bin", 2, 100).labels.tolist() == [99]


@pytest.mark.parametrize("data", [b"", record(b"\x01", 1, 2, 3)[:-1], record(b"\x01", 1, 2, 3) + b"\x00"])
def test_half_a_record_is_refused(tmp_path, data):
    (tmp_path / "a.bin").write_bytes(data)
    with pytest.raises(DataError, match="3073-byte records"):
        read_records(tmp_path / "a.bin", 1, 10)


def test_a_label_that_is_no_class_is_refused(tmp_path):
    (tmp_path / "a.bin").write_bytes(record(b"\x0a", 1, 2, 3))
    with pytest.raises(DataError, match="expected 0 to 9"):
        read_records(tmp_path / "a.bin", 1, 10)


def test_a_pickle_is_never_opened(tmp_path):
    np.save(tmp_path / "cifar10h-counts.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"cannot be read as an \.npy of numbers"):
        read_votes(tmp_path, "test")


def write(folder, images, labels):
    savemat(folder / "test_32x32.mat", {"X": images, "y": labels}, do_compression=True)


def test_axes_are_put_right_and_ten_is_the_digit_zero(tmp_path, draw):
    images = draw.integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
    write(tmp_path, images, np.array([[1], [10], [9], [10]], dtype=np.uint8))
    arrays = read_svhn(tmp_path, "test")
    assert arrays.labels.tolist() == [1, 0, 9, 0]
    for index in range(4):
        np.testing.assert_array_equal(arrays.inputs[index], images[:, :, :, index])


@pytest.mark.parametrize("label", [0, 11])
def test_labels_outside_of_one_to_ten_are_refused(tmp_path, label):
    write(tmp_path, np.zeros((32, 32, 3, 1), np.uint8), np.array([[label]], np.uint8))
    with pytest.raises(DataError, match="expected 1 to 10"):
        read_svhn(tmp_path, "test")


def test_arrays_of_another_shape_or_type_are_refused(tmp_path):
    write(tmp_path, np.zeros((32, 32, 3, 2), np.float64), np.ones((2, 1), np.uint8))
    with pytest.raises(DataError, match="float64"):
        read_svhn(tmp_path, "test")


def test_fewer_labels_than_images_are_refused(tmp_path):
    write(tmp_path, np.zeros((32, 32, 3, 2), np.uint8), np.ones((1, 1), np.uint8))
    with pytest.raises(DataError, match="2 inputs but 1 labels"):
        read_svhn(tmp_path, "test")


@pytest.mark.parametrize("keep", [0, 40, 200])
def test_a_truncated_file_is_refused(tmp_path, draw, keep):
    write(tmp_path, draw.integers(0, 256, (32, 32, 3, 2), dtype=np.uint8), np.ones((2, 1), np.uint8))
    path = tmp_path / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="MATLAB"):
        read_svhn(tmp_path, "test")


def test_a_promise_of_more_bytes_than_there_are_is_refused(tmp_path):
    path = tmp_path / "test_32x32.mat"
    savemat(path, {"X": np.zeros((2, 2), np.uint8)}, do_compression=True)
    data = bytearray(path.read_bytes())
    data[132:136] = (2**32 - 16).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(DataError, match="MATLAB"):
        read_svhn(tmp_path, "test")


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


def test_votes_are_counts_and_their_winner_is_the_label(tmp_path, draw):
    votes = draw.multinomial(50, [0.1] * 10, size=7)
    np.save(tmp_path / "cifar10h-counts.npy", votes)
    found = read_votes(tmp_path, "test")
    np.testing.assert_array_equal(found.inputs, votes)
    np.testing.assert_array_equal(found.labels, votes.argmax(1))


@pytest.mark.parametrize("votes", [np.ones((5, 9), int), np.ones((5, 10)), np.zeros((5, 10), int)])
def test_what_are_no_votes_is_refused(tmp_path, votes):
    np.save(tmp_path / "cifar10h-counts.npy", votes)
    with pytest.raises(DataError, match="cifar10h"):
        read_votes(tmp_path, "test")
