import numpy as np
import pytest
from scipy.io import loadmat, savemat

from totalcal.data.readers import matlab_arrays, read_svhn
from totalcal.errors import DataError


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
    with pytest.raises(DataError, match="cannot be read as a MATLAB file"):
        read_svhn(tmp_path, "test")


@pytest.mark.parametrize("compress", [True, False])
def test_arrays_are_those_that_scipy_reads(tmp_path, draw, compress):
    path = tmp_path / "any.mat"
    arrays = {
        "X": draw.integers(0, 256, (4, 3, 2, 5), dtype=np.uint8),
        "y": draw.integers(1, 11, (5, 1), dtype=np.uint8),
        "small": np.array([[7]], dtype=np.uint8),  # four bytes and fewer stand in the tag itself
        "reals": draw.normal(size=(3, 2)),
        "wide": draw.integers(-(2**40), 2**40, (2, 2)),
    }
    others = {"text": "words", "cells": np.array([1, "a"], dtype=object), "complex": np.array([[1j]])}
    savemat(path, {**others, **arrays}, do_compression=compress)
    expected, found = loadmat(path), matlab_arrays(path, list(arrays))
    assert set(found) == set(arrays)
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name])
        assert array.dtype == expected[name].dtype


def test_a_promise_of_more_bytes_than_there_are_is_refused(tmp_path):
    path = tmp_path / "test_32x32.mat"
    savemat(path, {"X": np.zeros((2, 2), np.uint8)})
    data = bytearray(path.read_bytes())
    data[132:136] = (2**32 - 16).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(DataError, match="cannot be read as a MATLAB file"):
        read_svhn(tmp_path, "test")
