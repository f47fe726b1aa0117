import cv2
import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy import ndimage
from skimage.filters import gaussian

from totalcal_lab.corruptions import blur
from totalcal_lab.corruptions.kernels import BlockDraws
from totalcal_lab.corruptions.registry import PARAMETERS

SEED = 5


def cut_off(x):
    return (np.clip(x, 0, 1) * 255).astype(np.uint8)


def smoothed(image, sigma):
    return cut_off(gaussian(image / 255.0, sigma=sigma, channel_axis=-1))


def one_by_one_copies(shards, left, up):
    """The original's walk: rows and columns downwards in index, each pixel overwritten in place."""
    side = len(shards)
    for row in range(side - 1, 1, -1):
        for column in range(side - 1, 1, -1):
            source = row - int(up[row - 2, column - 2]), column - int(left[row - 2, column - 2])
            shards[row, column] = shards[source]
    return shards


@pytest.mark.parametrize(("sigma", "passes"), PARAMETERS["glass_blur"])
def test_glass_is_bit_by_bit_the_walk_over_pixels(few, sigma, passes):
    ours = blur.glass_blur(few, BlockDraws(SEED, slice(0, len(few))), sigma, passes)
    draws, side = BlockDraws(SEED, slice(0, len(few))), few.shape[1]
    shifts = [(draws.coins(side - 2, side - 2), draws.coins(side - 2, side - 2)) for _ in range(passes)]
    for number, image in enumerate(few.numpy()):
        shards = smoothed(image, sigma)
        for left, up in shifts:
            shards = one_by_one_copies(shards, left[number], up[number])
        assert_array_equal(ours[number].numpy(), smoothed(shards, sigma))


def motion_pixel_by_pixel(image, angle, radius, sigma):
    """ImageMagick's definition, a tap at a time, in 16 bits."""
    taps = np.arange(2 * int(np.ceil(radius)) + 1)
    weights = np.exp(-(taps**2) / (2 * sigma**2))
    rows, columns = np.indices(image.shape[:2])
    total = np.zeros(image.shape)
    for tap, weight in zip(taps, weights / weights.sum(), strict=True):
        down = int(np.ceil(tap * np.sin(np.radians(angle)) - 0.5))
        right = int(np.ceil(tap * np.cos(np.radians(angle)) - 0.5))
        total += (
            weight * image[(rows + down).clip(0, len(image) - 1), (columns + right).clip(0, len(image) - 1)]
        )
    return (np.floor(257 * total + 0.5) // 257).astype(np.uint8)


@pytest.mark.parametrize(("radius", "sigma"), PARAMETERS["motion_blur"])
def test_motion_is_bit_by_bit_the_sum_over_taps(few, radius, sigma):
    ours = blur.motion_blur(few, BlockDraws(SEED, slice(0, len(few))), radius, sigma)
    angles = BlockDraws(SEED, slice(0, len(few))).uniform(low=-45, high=45).double()
    theirs = [
        motion_pixel_by_pixel(image, float(angle), radius, sigma)
        for image, angle in zip(few.numpy(), angles, strict=True)
    ]
    assert_array_equal(ours.numpy(), np.stack(theirs))


def test_motion_of_severity_four_is_that_of_severity_three(few):
    three, four = (
        blur.motion_blur(few, BlockDraws(SEED, slice(0, len(few))), radius, 2) for radius in (6, 8)
    )
    assert_array_equal(three.numpy(), four.numpy())


@pytest.mark.parametrize("sigma", [sigma for (sigma,) in PARAMETERS["gaussian_blur"]])
def test_gaussian_agrees_with_scikit_image(few, sigma):
    ours = blur.gaussian_blur(few, BlockDraws(0), sigma).numpy()
    theirs = np.stack([smoothed(image, sigma) for image in few.numpy()])
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert (ours != theirs).mean() < 0.001


@pytest.mark.parametrize(("radius", "softness"), PARAMETERS["defocus_blur"])
def test_defocus_agrees_with_opencv(few, radius, softness):
    offsets = np.arange(-8, 9)
    disk = (offsets**2 + offsets[:, None] ** 2 <= radius**2).astype(np.float32)
    kernel = cv2.GaussianBlur(disk / disk.sum(), (3, 3), sigmaX=softness)
    theirs = np.stack([cut_off(cv2.filter2D(image / 255.0, -1, kernel)) for image in few.numpy()])
    ours = blur.defocus_blur(few, BlockDraws(0), radius, softness).numpy()
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert (ours != theirs).mean() < 0.02


@pytest.mark.parametrize("side", [28, 32, 45])
@pytest.mark.parametrize("factors", [factors for (factors,) in PARAMETERS["zoom_blur"]])
def test_zoom_agrees_with_scipy(side, factors):
    image = np.random.default_rng(0).integers(0, 256, size=(side, side, 3), dtype=np.uint8)
    x = (image / 255.0).astype(np.float32)
    total = x.copy()
    for factor in np.arange(1, 1.3, 0.01)[:factors]:
        seen = int(np.ceil(side / factor))
        first = (side - seen) // 2
        middle = x[first : first + seen, first : first + seen]
        large = ndimage.zoom(middle, (factor, factor, 1), order=1)
        trim = (len(large) - side) // 2
        total += large[trim : trim + side, trim : trim + side]
    ours = blur.zoom_blur(torch.from_numpy(image[None]), BlockDraws(0), factors)[0].numpy()
    theirs = cut_off(total / (factors + 1))
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert (ours != theirs).mean() < 0.005
