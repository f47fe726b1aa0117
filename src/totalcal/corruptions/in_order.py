"""Smoothing with SciPy's own order of operations, for where the last bit decides."""

import numpy as np
import torch
from torch import Tensor


def smooth_in_order(images: Tensor, sigma: float) -> Tensor:
    """A Gaussian cut at 4σ, edges repeated: to the bit scipy.ndimage.gaussian_filter of x/255, cut to bytes.

    In flat regions a result is a whole level or just below it, by rounding alone: only the same sums in the
    same order fall on the same side. Slower than a product of matrices.
    """
    taps = _taps(sigma)
    x = images.double().div_(255)
    for axis in (1, 2):
        x = _correlate(x, taps, axis)
    return x.mul_(255).to(torch.uint8)


def _taps(sigma: float) -> list[float]:
    """From the centre outwards."""
    radius = int(4 * sigma + 0.5)
    taps = np.exp(-0.5 / (sigma * sigma) * np.arange(-radius, radius + 1) ** 2)
    half: list[float] = (taps / taps.sum())[radius:].tolist()
    return half


def _correlate(x: Tensor, taps: list[float], axis: int) -> Tensor:
    side, radius = x.shape[axis], len(taps) - 1
    index = torch.arange(-radius, side + radius, device=x.device).clamp_(0, side - 1)
    padded = x.index_select(axis, index)
    total = x * taps[0]
    for offset in range(radius, 0, -1):
        both = padded.narrow(axis, radius - offset, side) + padded.narrow(axis, radius + offset, side)
        total += both.mul_(taps[offset])
    return total
