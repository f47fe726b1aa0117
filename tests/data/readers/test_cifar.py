import numpy as np
import pytest

from totalcal.data.readers import cifar_reader, read_records
from totalcal.errors import DataError


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
