import sys

import cv2
import numpy as np
import pytest
from skimage.filters import gaussian

from totalcal.corruptions import corrupt
from totalcal.corruptions.kernels import Draws
from totalcal.corruptions.registry import PARAMETERS
from totalcal.corruptions.weather import spatter
from totalcal.errors import MissingExtraError

SEED = 11


def water(x, liquid, strength):
    depth = (liquid * 255).astype(np.uint8)
    distance = cv2.distanceTransform(255 - cv2.Canny(depth, 50, 150), cv2.DIST_L2, 5)
    _, distance = cv2.threshold(distance, 20, 20, cv2.THRESH_TRUNC)
    relief = cv2.equalizeHist(cv2.blur(distance, (3, 3)).astype(np.uint8))
    relief = cv2.filter2D(relief, cv2.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))
    shine = depth * cv2.blur(relief, (3, 3)).astype(float)
    return x + strength * shine[..., None] / shine.max() * np.array([175, 238, 238]) / 255


def mud(x, liquid, threshold, sigma):
    mask = gaussian((liquid > threshold).astype(float), sigma=sigma)[..., None]
    mask = np.where(mask < 0.8, 0, mask)
    return x * (1 - mask) + mask * np.array([63, 42, 20]) / 255


@pytest.mark.parametrize("parameters", PARAMETERS["spatter"])
def test_spatter_agrees_with_the_libraries_one_image_at_a_time(few, parameters):
    mean, sd, sigma, threshold, strength, muddy = parameters
    rows, side = slice(0, len(few)), few.shape[1]
    ours = spatter(few, Draws(SEED, rows), *parameters).numpy()
    layers = Draws(SEED, rows).normal(1, side, side, mean=mean, sd=sd).double().squeeze(1).numpy()
    differ = 0
    for result, image, layer in zip(ours, few.numpy(), layers, strict=True):
        liquid = gaussian(layer, sigma=sigma)
        liquid[liquid < threshold] = 0
        x = image / 255.0
        covered = mud(x, liquid, threshold, strength) if muddy else water(x, liquid, strength)
        theirs = (np.clip(covered, 0, 1) * 255).astype(int)
        differ += (result != theirs).mean() / len(few)
        assert np.abs(result - theirs).max() <= 1
    assert differ < 0.001


@pytest.mark.parametrize("type", ["spatter", "jpeg_compression"])
def test_without_opencv_the_message_says_what_to_install(monkeypatch, type):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'totalcal\[corruptions\]'"):
        corrupt(np.zeros((1, 32, 32, 3), dtype=np.uint8), type, 1)
