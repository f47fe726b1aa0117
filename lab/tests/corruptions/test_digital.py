"""Noise, contrast, pixels, JPEG and elastic transforms."""

from io import BytesIO

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from PIL import Image
from scipy import ndimage, stats
from skimage.color import hsv2rgb, rgb2hsv

from totalcal_lab.corruptions import digital
from totalcal_lab.corruptions.digital import elastic_transform
from totalcal_lab.corruptions.kernels import BLOCK, BlockDraws
from totalcal_lab.corruptions.registry import PARAMETERS

LEVELS = (
    torch.arange(256, dtype=torch.uint8)
    .repeat_interleave(48)
    .view(1, 64, 64, 3)
    .expand(BLOCK, -1, -1, -1)
    .contiguous()
)


def share_at_most(values, levels=range(-1, 256)):
    """Of `values`, the share at most as high as every level."""
    return np.searchsorted(np.sort(values), levels, side="right") / len(values)


@pytest.mark.parametrize("level", [0, 7, 128, 255])
@pytest.mark.parametrize("sd", [sd for (sd,) in PARAMETERS["gaussian_noise"]])
def test_gaussian_noise_is_normal_cut_off_and_clipped(sd, level):
    noisy = digital.gaussian_noise(LEVELS, BlockDraws(4), sd)[level == LEVELS].numpy()
    expected = stats.norm(level, 255 * sd).cdf(np.arange(0, 257))
    expected[0], expected[-1] = 0, 1  # below 0 and above 255 there is nothing
    assert np.abs(share_at_most(noisy) - expected).max() < 1.95 / np.sqrt(len(noisy))  # 1 in 1000


@pytest.mark.parametrize("level", [1, 128, 255])
@pytest.mark.parametrize("sd", [sd for (sd,) in PARAMETERS["speckle_noise"]])
def test_speckle_noise_is_normal_and_grows_with_the_level(sd, level):
    noisy = digital.speckle_noise(LEVELS, BlockDraws(5), sd)[level == LEVELS].numpy()
    expected = stats.norm(level, level * sd).cdf(np.arange(0, 257))
    expected[0], expected[-1] = 0, 1
    assert np.abs(share_at_most(noisy) - expected).max() < 1.95 / np.sqrt(len(noisy))


def test_noise_reaches_four_standard_deviations():
    grey = torch.full((BLOCK, 64, 64, 3), 128, dtype=torch.uint8)
    noisy = digital.gaussian_noise(grey, BlockDraws(6), 0.1).int() - 128  # 1.6 million values
    assert noisy.min() < -4 * 25.5
    assert noisy.max() > 4 * 25.5 - 1


@pytest.mark.parametrize("photons", [photons for (photons,) in PARAMETERS["shot_noise"]])
@pytest.mark.parametrize("level", [0, 1, 60, 255])
def test_shot_noise_is_poisson_at_every_rate(photons, level):
    noisy = digital.shot_noise(LEVELS, BlockDraws(1), photons)[level == LEVELS].numpy()
    counts = np.arange(0, 4 * photons)
    mass = stats.poisson(level / 255 * photons).pmf(counts)
    levels = np.floor(np.minimum(counts / photons, 1) * 255)
    expected = np.bincount(levels.astype(int), weights=mass, minlength=256)
    observed = np.bincount(noisy, minlength=256) / len(noisy)
    assert np.abs(np.cumsum(observed) - np.cumsum(expected)).max() < 1.95 / np.sqrt(len(noisy))  # 1 in 1000


@pytest.mark.parametrize("amount", [amount for (amount,) in PARAMETERS["impulse_noise"]])
def test_impulse_noise_makes_as_many_values_white_as_black(amount):
    noisy = digital.impulse_noise(torch.full_like(LEVELS, 100), BlockDraws(2), amount)
    for level in (0, 255):
        assert (noisy == level).double().mean() == pytest.approx(amount / 2, rel=0.05)
    assert set(noisy.unique().tolist()) == {0, 100, 255}


def test_speckle_noise_leaves_black_black():
    assert digital.speckle_noise(torch.zeros_like(LEVELS), BlockDraws(3), 0.2).max() == 0


BOX = Image.Resampling.BOX


@pytest.mark.parametrize("side", [8, 28, 32, 33, 64])
@pytest.mark.parametrize("scale", [scale for (scale,) in PARAMETERS["pixelate"]])
def test_pixelate_is_bit_by_bit_pillow(side, scale):
    images = np.random.default_rng(side).integers(0, 256, size=(3, side, side, 3), dtype=np.uint8)
    small = int(side * scale)
    theirs = [
        np.asarray(Image.fromarray(image).resize((small, small), BOX).resize((side, side), BOX))
        for image in images
    ]
    assert_array_equal(digital.pixelate(torch.from_numpy(images), BlockDraws(0), scale).numpy(), theirs)


@pytest.mark.parametrize("side", [28, 32])
@pytest.mark.parametrize("quality", [quality for (quality,) in PARAMETERS["jpeg_compression"]])
def test_jpeg_is_bit_by_bit_pillow(few, side, quality):
    images = few[:, :side, :side].contiguous()

    def through_pillow(image):
        file = BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality)
        return np.asarray(Image.open(file))

    theirs = [through_pillow(image) for image in images.numpy()]
    assert_array_equal(digital.jpeg_compression(images, BlockDraws(0), quality).numpy(), theirs)


def through_hsv(images, channel, change):
    hsv = rgb2hsv(images / 255.0)
    hsv[..., channel] = np.clip(change(hsv[..., channel]), 0, 1)
    return (hsv2rgb(hsv) * 255).astype(np.uint8)


@pytest.mark.parametrize("added", [added for (added,) in PARAMETERS["brightness"]])
def test_brightness_agrees_with_scikit_image(few, added):
    ours = digital.brightness(few, BlockDraws(0), added).numpy()
    assert_close(ours, through_hsv(few.numpy(), 2, lambda value: value + added))


@pytest.mark.parametrize(("factor", "offset"), PARAMETERS["saturate"])
def test_saturate_agrees_with_scikit_image(few, factor, offset):
    ours = digital.saturate(few, BlockDraws(0), factor, offset).numpy()
    assert_close(ours, through_hsv(few.numpy(), 1, lambda saturation: saturation * factor + offset))


def assert_close(ours, theirs):
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert (ours != theirs).mean() < 0.03


@pytest.mark.parametrize("factor", [factor for (factor,) in PARAMETERS["contrast"]])
def test_contrast_shrinks_about_the_mean_of_each_channel(few, factor):
    x = few.numpy() / 255.0
    mean = x.mean(axis=(1, 2), keepdims=True)
    theirs = (((x - mean) * factor + mean) * 255).astype(np.uint8)
    ours = digital.contrast(few, BlockDraws(0), factor).numpy()
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert (ours != theirs).mean() < 0.001


SEED = 3


def pulled(x, moves):
    """Each pixel from where the inverse affine map says, borders mirrored without repeating the edge."""
    side = x.shape[-1]
    middle, arm = side // 2, side // 3
    pins = np.array(
        [[middle + arm, middle + arm], [middle + arm, middle - arm], [middle - arm, middle - arm]]
    )
    forward = np.linalg.solve(np.column_stack([pins, np.ones(3)]), pins + moves)  # [1 x y] → new place
    rows, columns = np.indices((side, side))
    linear, shift = forward[:2].T, forward[2]
    old = np.linalg.solve(linear, np.stack([columns.ravel(), rows.ravel()]) - shift[:, None])
    places = old[::-1].reshape(2, side, side)
    return np.stack([ndimage.map_coordinates(plane, places, order=1, mode="mirror") for plane in x])


def kneaded(x, fields, smoothness, length):
    side = x.shape[-1]
    right, down = (
        ndimage.gaussian_filter(f, smoothness * side, mode="reflect", truncate=3) * length * side
        for f in fields
    )
    places = np.indices((side, side)) + np.stack([down, right])
    return np.stack([ndimage.map_coordinates(plane, places, order=1, mode="reflect") for plane in x])


@pytest.mark.parametrize("side", [28, 32])
@pytest.mark.parametrize(("length", "smoothness", "jitter"), PARAMETERS["elastic_transform"])
def test_elastic_is_within_a_level_of_scipy(few, side, length, smoothness, jitter):
    images = few[:, :side, :side].contiguous()
    rows = slice(0, len(images))
    ours = elastic_transform(images, BlockDraws(SEED, rows), length, smoothness, jitter).numpy()
    draws = BlockDraws(SEED, rows)
    moves = draws.uniform(3, 2, low=-jitter * side, high=jitter * side).double().numpy()
    planes = np.moveaxis(images.numpy() / 255.0, -1, 1)
    planes = [pulled(x, move) for x, move in zip(planes, moves, strict=True)]
    if length:
        fields = draws.words(torch.int16, 2, side, side).double().numpy() / 2**15
        planes = [kneaded(x, field, smoothness, length) for x, field in zip(planes, fields, strict=True)]
    theirs = np.floor(np.moveaxis(np.stack(planes), 1, -1) * 255 + 1e-6)
    assert np.abs(ours - theirs).max() <= 1
    assert (ours != theirs).mean() < 0.001
