import numpy as np
import pytest

from totalcal.data.readers import CORRUPTIONS, read_cifar_c
from totalcal.errors import DataError


def test_there_are_nineteen_corruptions():
    assert len(set(CORRUPTIONS)) == 19


def test_it_reads_a_corruption_and_the_labels(tmp_path, draw):
    images = draw.integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    np.save(tmp_path / "fog.npy", images)
    np.save(tmp_path / "labels.npy", np.array([1, 2, 3]))
    arrays = read_cifar_c(tmp_path, "fog")
    np.testing.assert_array_equal(arrays.inputs, images)
    assert arrays.labels.tolist() == [1, 2, 3]


def test_a_pickle_is_never_opened(tmp_path):
    np.save(tmp_path / "fog.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"cannot be read as an \.npy of numbers"):
        read_cifar_c(tmp_path, "fog")


def test_images_of_another_shape_are_refused(tmp_path):
    np.save(tmp_path / "fog.npy", np.zeros((3, 3, 32, 32), np.uint8))
    with pytest.raises(DataError, match=r"\(3, 3, 32, 32\)"):
        read_cifar_c(tmp_path, "fog")
