from io import BytesIO

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from PIL import Image
from skimage.color import hsv2rgb, rgb2hsv

from totalcal.corruptions import digital
from totalcal.corruptions.kernels import Draws
from totalcal.corruptions.registry import PARAMETERS

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
    assert_array_equal(digital.pixelate(torch.from_numpy(images), Draws(0), scale).numpy(), theirs)


@pytest.mark.parametrize("side", [28, 32])
@pytest.mark.parametrize("quality", [quality for (quality,) in PARAMETERS["jpeg_compression"]])
def test_jpeg_is_bit_by_bit_pillow(few, side, quality):
    images = few[:, :side, :side].contiguous()

    def through_pillow(image):
        file = BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality)
        return np.asarray(Image.open(file))

    theirs = [through_pillow(image) for image in images.numpy()]
    assert_array_equal(digital.jpeg_compression(images, Draws(0), quality).numpy(), theirs)


def through_hsv(images, channel, change):
    hsv = rgb2hsv(images / 255.0)
    hsv[..., channel] = np.clip(change(hsv[..., channel]), 0, 1)
    return (hsv2rgb(hsv) * 255).astype(np.uint8)


@pytest.mark.parametrize("added", [added for (added,) in PARAMETERS["brightness"]])
def test_brightness_agrees_with_scikit_image(few, added):
    ours = digital.brightness(few, Draws(0), added).numpy()
    assert_close(ours, through_hsv(few.numpy(), 2, lambda value: value + added))


@pytest.mark.parametrize(("factor", "offset"), PARAMETERS["saturate"])
def test_saturate_agrees_with_scikit_image(few, factor, offset):
    ours = digital.saturate(few, Draws(0), factor, offset).numpy()
    assert_close(ours, through_hsv(few.numpy(), 1, lambda saturation: saturation * factor + offset))


def assert_close(ours, theirs):
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert (ours != theirs).mean() < 0.03


@pytest.mark.parametrize("factor", [factor for (factor,) in PARAMETERS["contrast"]])
def test_contrast_shrinks_about_the_mean_of_each_channel(few, factor):
    x = few.numpy() / 255.0
    mean = x.mean(axis=(1, 2), keepdims=True)
    theirs = (((x - mean) * factor + mean) * 255).astype(np.uint8)
    ours = digital.contrast(few, Draws(0), factor).numpy()
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert (ours != theirs).mean() < 0.001
