import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy import ndimage

from totalcal.corruptions import kernels

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
