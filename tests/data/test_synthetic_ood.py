import numpy as np
import pytest

from totalcal.data.synthetic import SYNTHETIC_OOD, synthetic_ood
from totalcal.errors import ShapeError


@pytest.fixture(params=[(20, 9, 9), (20, 9, 9, 3)])
def images(request, draw):
    return draw.integers(256, size=request.param, dtype=np.uint8)


@pytest.mark.parametrize("name", SYNTHETIC_OOD)
def test_a_set_has_the_shape_of_the_images_and_follows_from_the_seed(name, images):
    before = images.copy()
    made = synthetic_ood(name, images)
    assert made.shape == images.shape
    assert made.dtype == np.uint8
    assert (made == synthetic_ood(name, images)).all()
    assert (images == before).all()


def test_images_are_turned_a_quarter_and_stood_on_their_heads(images):
    for row in range(9):
        for column in range(9):
            assert (synthetic_ood("rotated-90", images)[:, 8 - column, row] == images[:, row, column]).all()
            assert (synthetic_ood("upside-down", images)[:, 8 - row, column] == images[:, row, column]).all()


def test_inversion_is_its_own_inverse(images):
    inverted = synthetic_ood("inverted", images)
    assert (inverted.astype(int) + images == 255).all()


def test_a_constant_image_has_one_level_per_channel_and_images_differ(images):
    made = synthetic_ood("constant", images)
    assert (made == made[:, :1, :1]).all()
    assert len(np.unique(made.reshape(len(made), -1), axis=0)) > 10


def test_shuffled_pixels_keep_their_channels_and_each_image_has_its_own_order(images):
    pixels = images.reshape(20, 81, -1)
    made = synthetic_ood("shuffled-pixels", images).reshape(20, 81, -1)
    for before, after in zip(pixels.tolist(), made.tolist(), strict=True):
        assert sorted(before) == sorted(after)
    ramp = np.tile(np.arange(81, dtype=np.uint8).reshape(1, 9, 9), (20, 1, 1))
    orders = synthetic_ood("shuffled-pixels", ramp).reshape(20, 81)
    assert len(np.unique(orders, axis=0)) == 20


def test_noise_is_uniform_over_all_levels():
    from scipy.stats import chisquare

    noise = synthetic_ood("uniform-noise", np.zeros((100, 28, 28), np.uint8))
    assert chisquare(np.bincount(noise.ravel(), minlength=256)).pvalue > 1e-3


def test_oblong_images_cannot_be_rotated():
    with pytest.raises(ShapeError, match="square"):
        synthetic_ood("rotated-90", np.zeros((1, 4, 6), np.uint8))
