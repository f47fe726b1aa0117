"""Noise: independent for every value of every channel."""

from functools import lru_cache
from typing import Final

import torch
from torch import Tensor

from totalcal.corruptions.blocks import Draws, truncate

_WORDS: Final = 2**16  # steps in which a distribution is resolved: one random word of 16 bits per value


def gaussian_noise(images: Tensor, draws: Draws, sd: float) -> Tensor:
    """x + n, n ~ N(0, sd²). As x is a whole level, ⌊x + n⌋ = x + ⌊n⌋: the noise is whole levels, too."""
    levels = _look_up(_normal_levels(sd, images.device), _quantiles(images, draws))
    return levels.add_(images).clamp_(0, 255).to(torch.uint8)


def speckle_noise(images: Tensor, draws: Draws, sd: float) -> Tensor:
    """x + x n, n ~ N(0, sd²)."""
    factors = _look_up(_normal_factors(sd, images.device), _quantiles(images, draws))
    return truncate(factors.mul_(images))


def impulse_noise(images: Tensor, draws: Draws, amount: float) -> Tensor:
    """A value turns white with probability amount/2, black with amount/2."""
    words = draws.words(torch.int32, *images.shape[1:])
    black, white = (round(share * 2**32) - 2**31 for share in (amount / 2, amount))
    return images.masked_fill(words < white, 255).masked_fill_(words < black, 0)


def shot_noise(images: Tensor, draws: Draws, photons: float) -> Tensor:
    """Poisson(x · photons) / photons, looked up: there are only 256 rates."""
    place = images.int().mul_(_WORDS).add_(_quantiles(images, draws))
    return _look_up(_photon_levels(photons, images.device), place)


def _quantiles(images: Tensor, draws: Draws) -> Tensor:
    """For every value, the number of one of 2¹⁶ equally likely parts of a distribution."""
    return draws.words(torch.uint16, *images.shape[1:]).int()


def _look_up(table: Tensor, place: Tensor) -> Tensor:
    return table.index_select(0, place.flatten()).view_as(place)


@lru_cache(maxsize=1)
def _normal_levels(sd: float, device: torch.device) -> Tensor:
    return (255 * sd * _standard_normal()).floor_().to(device, torch.int16)


@lru_cache(maxsize=1)
def _normal_factors(sd: float, device: torch.device) -> Tensor:
    return (1 + sd * _standard_normal()).to(device, torch.float32)


def _standard_normal() -> Tensor:
    """The normal at the middle of each part, so within ±4.33: the 1.5 · 10⁻⁵ that lie beyond are drawn in."""
    middles = (torch.arange(_WORDS, dtype=torch.float64) + 0.5) / _WORDS
    normal: Tensor = torch.special.ndtri(middles)
    return normal


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
