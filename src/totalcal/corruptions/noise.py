"""Noise: independent for every value of every channel."""

from functools import lru_cache
from typing import Final

import torch
from torch import Tensor

from totalcal.corruptions.draws import Draws
from totalcal.corruptions.pixels import truncate

_WORDS: Final = 2**16  # steps in which the distribution of photon counts is resolved


def gaussian_noise(images: Tensor, draws: Draws, sd: float) -> Tensor:
    """x + n, n ~ N(0, sd²)."""
    return truncate(draws.normal(*images.shape[1:], sd=255 * sd) + images)


def speckle_noise(images: Tensor, draws: Draws, sd: float) -> Tensor:
    """x + x n, n ~ N(0, sd²)."""
    return truncate(draws.normal(*images.shape[1:], mean=1, sd=sd) * images)


def impulse_noise(images: Tensor, draws: Draws, amount: float) -> Tensor:
    """A value turns white with probability amount/2, black with amount/2."""
    words = draws.words(torch.int32, *images.shape[1:])
    black, white = (round(share * 2**32) - 2**31 for share in (amount / 2, amount))
    return images.masked_fill(words < white, 255).masked_fill_(words < black, 0)


def shot_noise(images: Tensor, draws: Draws, photons: float) -> Tensor:
    """Poisson(x · photons) / photons, looked up: there are only 256 rates."""
    words = draws.words(torch.int16, *images.shape[1:])
    place = images.int().mul_(_WORDS).add_(words).add_(_WORDS // 2)
    return _photon_levels(photons, images.device).index_select(0, place.flatten()).view_as(images)


@lru_cache(maxsize=1)  # 16 MB
def _photon_levels(photons: float, device: torch.device) -> Tensor:
    """The level at every one of 2¹⁶ quantiles of every one of 256 rates."""
    counts = torch.arange(photons + 12 * photons**0.5 + 12, dtype=torch.float64)
    rates = torch.arange(256, dtype=torch.float64).unsqueeze(1) / 255 * photons
    mass = torch.exp(torch.xlogy(counts, rates) - rates - torch.lgamma(counts + 1))  # [rates, counts]
    ends = (mass.cumsum(1) * _WORDS).round_().long()
    ends[:, -1] = _WORDS
    quantiles = ends.diff(dim=1, prepend=torch.zeros(256, 1, dtype=torch.long))
    levels = ((counts / photons).clamp(max=1) * 255).to(torch.uint8)
    return levels.repeat(256).repeat_interleave(quantiles.flatten()).to(device)
