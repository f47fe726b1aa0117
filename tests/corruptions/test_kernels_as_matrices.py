import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import ndimage

from totalcal.corruptions import kernels

PLANES = torch.from_numpy(np.random.default_rng(0).random((2, 3, 20, 20)))


@pytest.mark.parametrize(
    "border", [kernels.nearest, kernels.reflect, kernels.mirror], ids=lambda border: border.__name__
)
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
