import numpy as np
import pytest
import torch
from scipy import stats

from totalcal.corruptions import digital
from totalcal.corruptions.kernels import BLOCK, Draws
from totalcal.corruptions.registry import PARAMETERS

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
    noisy = digital.gaussian_noise(LEVELS, Draws(4), sd)[level == LEVELS].numpy()
    expected = stats.norm(level, 255 * sd).cdf(np.arange(0, 257))
    expected[0], expected[-1] = 0, 1  # below 0 and above 255 there is nothing
    assert np.abs(share_at_most(noisy) - expected).max() < 1.95 / np.sqrt(len(noisy))  # 1 in 1000


@pytest.mark.parametrize("level", [1, 128, 255])
@pytest.mark.parametrize("sd", [sd for (sd,) in PARAMETERS["speckle_noise"]])
def test_speckle_noise_is_normal_and_grows_with_the_level(sd, level):
    noisy = digital.speckle_noise(LEVELS, Draws(5), sd)[level == LEVELS].numpy()
    expected = stats.norm(level, level * sd).cdf(np.arange(0, 257))
    expected[0], expected[-1] = 0, 1
    assert np.abs(share_at_most(noisy) - expected).max() < 1.95 / np.sqrt(len(noisy))


def test_noise_reaches_four_standard_deviations():
    grey = torch.full((BLOCK, 64, 64, 3), 128, dtype=torch.uint8)
    noisy = digital.gaussian_noise(grey, Draws(6), 0.1).int() - 128  # 1.6 million values
    assert noisy.min() < -4 * 25.5
    assert noisy.max() > 4 * 25.5 - 1


@pytest.mark.parametrize("photons", [photons for (photons,) in PARAMETERS["shot_noise"]])
@pytest.mark.parametrize("level", [0, 1, 60, 255])
def test_shot_noise_is_poisson_at_every_rate(photons, level):
    noisy = digital.shot_noise(LEVELS, Draws(1), photons)[level == LEVELS].numpy()
    counts = np.arange(0, 4 * photons)
    mass = stats.poisson(level / 255 * photons).pmf(counts)
    levels = np.floor(np.minimum(counts / photons, 1) * 255)
    expected = np.bincount(levels.astype(int), weights=mass, minlength=256)
    observed = np.bincount(noisy, minlength=256) / len(noisy)
    assert np.abs(np.cumsum(observed) - np.cumsum(expected)).max() < 1.95 / np.sqrt(len(noisy))  # 1 in 1000


@pytest.mark.parametrize("amount", [amount for (amount,) in PARAMETERS["impulse_noise"]])
def test_impulse_noise_makes_as_many_values_white_as_black(amount):
    noisy = digital.impulse_noise(torch.full_like(LEVELS, 100), Draws(2), amount)
    for level in (0, 255):
        assert (noisy == level).double().mean() == pytest.approx(amount / 2, rel=0.05)
    assert set(noisy.unique().tolist()) == {0, 100, 255}


def test_speckle_noise_leaves_black_black():
    assert digital.speckle_noise(torch.zeros_like(LEVELS), Draws(3), 0.2).max() == 0
