import numpy as np
import pytest
from skimage.measure import block_reduce

from totalcal.data.tasks import RESIZINGS, block_mean, centre_crop, subsample


@pytest.fixture
def images(draw):
    return draw.integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)


@pytest.mark.parametrize("way", RESIZINGS)
def test_every_way_halves_the_sides(images, way):
    resized = RESIZINGS[way](images)
    assert resized.shape == (3, 32, 32, 3)
    assert resized.dtype == np.uint8
    assert resized.flags.c_contiguous


def test_the_block_mean_is_that_of_scikit_image_rounded(images):
    expected = np.floor(block_reduce(images.astype(float), (1, 2, 2, 1), np.mean) + 0.5)
    np.testing.assert_array_equal(block_mean(images), expected)


def test_subsampling_keeps_pixels_and_the_crop_keeps_the_middle(images):
    assert (subsample(images)[:, 3, 5] == images[:, 6, 10]).all()
    assert (centre_crop(images)[:, 0, 0] == images[:, 16, 16]).all()
    assert (centre_crop(images)[:, -1, -1] == images[:, 47, 47]).all()
