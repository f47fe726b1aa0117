"""Cloudy maps by the diamond-square method on a torus."""

from torch import Tensor

from totalcal.corruptions.draws import Draws


def plasma(corners: Tensor, side: int, decay: float, draws: Draws) -> Tensor:
    """Maps in [0, 1], [batch, side, side], that start from zeros [batch, 1, 1]; `side` is a power of two.

    Each level doubles the grid: centres are the mean of their corners, midpoints of edges the mean of the
    two corners and two centres around them, both + a U(−a, a); a starts at 100 and falls by `decay` a level.
    """
    amplitude = 100.0
    while corners.shape[-1] < side:
        corners = _refine(corners, amplitude**2, draws)
        amplitude /= decay
    corners = corners - corners.amin((1, 2), keepdim=True)
    return corners / corners.amax((1, 2), keepdim=True)


def _refine(corners: Tensor, amplitude: float, draws: Draws) -> Tensor:
    batch, size, _ = corners.shape
    noise = draws.uniform(3, size, size, low=-amplitude, high=amplitude).unbind(1)
    across, down = corners + corners.roll(-1, 2), corners + corners.roll(-1, 1)
    centres = (across + across.roll(-1, 1)) / 4 + noise[0]
    finer = corners.new_empty(batch, 2 * size, 2 * size)
    finer[:, 0::2, 0::2] = corners
    finer[:, 1::2, 1::2] = centres
    finer[:, 0::2, 1::2] = (across + centres + centres.roll(1, 1)) / 4 + noise[1]
    finer[:, 1::2, 0::2] = (down + centres + centres.roll(1, 2)) / 4 + noise[2]
    return finer


def power_of_two_above(side: int) -> int:
    """
    >>> power_of_two_above(28), power_of_two_above(32)
    (32, 32)
    """
    return 1 << (side - 1).bit_length()
