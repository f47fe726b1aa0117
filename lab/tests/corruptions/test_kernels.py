"""The kernels behind the corruptions, against plain loops."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import ndimage

from totalcal_lab.corruptions import kernels

PLANES = torch.from_numpy(np.random.default_rng(0).random((2, 3, 20, 20)))


@pytest.mark.parametrize("border", [kernels.nearest, kernels.reflect], ids=lambda border: border.__name__)
@pytest.mark.parametrize("sigma", [0.4, 1.0, 6.4])
def test_smoothing_agrees_with_scipy_at_every_border(border, sigma):
    theirs = ndimage.gaussian_filter(PLANES.numpy(), sigma, mode=border.__name__, truncate=3, axes=(2, 3))
    assert_allclose(kernels.smooth(PLANES, sigma, border, truncate=3.0), theirs, atol=1e-12)


@pytest.mark.parametrize(
    ("side", "factor", "geometry"),
    [
        (32, 1.75, (19, 33)),
        (32, 2.25, (15, 34)),
        (32, 1.25, (26, 32)),
        (28, 2.25, (13, 29)),
        (28, 1.25, (23, 29)),
    ],
)
def test_zoom_geometry_is_that_of_the_original(side, factor, geometry):
    assert kernels.zoom_geometry(side, factor) == geometry


WIDE = np.array(
    [
        [0, 0, 1, 0, 0],
        [0, 2, 8, 2, 0],
        [1, 8, 20, 8, 1],
        [0, 2, 8, 2, 0],
        [0, 0, 1, 0, 0],
    ]
)


def correlated(images, kernel):
    """In whole numbers, so that nothing is rounded: kernels of sum 64."""
    return ndimage.correlate(images.astype(int), kernel[None, :, :, None], mode="mirror") // 64


@pytest.mark.parametrize("side", [8, 33])
@pytest.mark.parametrize("kernel", [WIDE, WIDE[1:4, 1:4] + 4 * np.eye(3, dtype=int)], ids=["5 × 5", "3 × 3"])
def test_a_kernel_is_correlated_to_the_bit(side, kernel):
    kernel = kernel.copy()
    kernel[len(kernel) // 2, len(kernel) // 2] += 64 - kernel.sum()
    images = np.random.default_rng(0).integers(0, 256, size=(5, side, side, 3), dtype=np.uint8)
    ours = kernels.correlate(torch.from_numpy(images), kernels.rings(torch.from_numpy(kernel / 64)))
    assert_array_equal(ours.numpy(), correlated(images, kernel))


def test_weights_of_a_millionth_tip_whole_levels():
    """A dark neighbour pulls a bright pixel just below its level, a bright one leaves it there."""
    images = torch.full((1, 8, 8, 3), 100, dtype=torch.uint8)
    images[0, 2, 2], images[0, 5, 5] = 0, 200
    faint = [kernels.Ring(1e-6, [(0, 1), (0, -1)])]
    result = kernels.correlate(images, faint)[0, :, :, 0]
    assert result[2].tolist() == [100, 99, 0, 99, 100, 100, 100, 100]
    assert result[5].tolist() == [100, 100, 100, 100, 100, 199, 100, 100]
