from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from totalcal_lab.data.catalogue import read_digits, read_iris


@pytest.mark.parametrize(("read", "whole"), [(read_digits, load_digits), (read_iris, load_iris)])
def test_train_and_test_are_the_whole_set_and_share_no_example(read, whole):
    train, test = read(Path(), "train"), read(Path(), "test")
    labels = np.concatenate([train.labels, test.labels])
    np.testing.assert_array_equal(np.bincount(labels), np.bincount(whole().target))
    rows = np.concatenate([part.inputs.reshape(len(part.labels), -1) for part in (train, test)])
    expected = whole().data * (255 / 16 if read is read_digits else 1)
    np.testing.assert_allclose(np.sort(rows.sum(1)), np.sort(expected.sum(1)), atol=20)


def test_digits_use_the_whole_range_of_a_byte():
    images = read_digits(Path(), "train").inputs
    assert (images.min(), images.max()) == (0, 255)


def test_classes_are_as_frequent_in_the_test_split_as_elsewhere():
    assert np.ptp(np.bincount(read_iris(Path(), "test").labels)) <= 1


def test_all_of_iris_can_be_had_as_in_the_toy():
    np.testing.assert_allclose(read_iris(Path(), "all").inputs, load_iris().data, rtol=1e-6)
