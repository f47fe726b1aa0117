"""Weather: snow, frost, fog, and spatter, drops of water or mud on the lens."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import threshold as threshold_below

from totalcal.corruptions import kernels, textures
from totalcal.corruptions.blocks import Draws, from_planes, opencv, to_planes, truncate
from totalcal.corruptions.motion import directional_blur
from totalcal.errors import ShapeError


def fog(images: Tensor, draws: Draws, amount: float, decay: float) -> Tensor:
    """(x + amount · F) m / (m + amount), F a plasma map, m the brightest value of the image."""
    side = images.shape[1]
    planes = to_planes(images)
    start = planes.new_zeros(len(planes), 1, 1)
    cloud = plasma(start, power_of_two_above(side), decay, draws)[:, None, :side, :side]
    brightest = planes.amax((1, 2, 3), keepdim=True)
    return from_planes((planes + 255 * amount * cloud) * (brightest / (brightest + 255 * amount)))


def frost(
    images: Tensor,
    draws: Draws,
    image_weight: float,
    frost_weight: float,
    photographs: Sequence[Tensor] | None = None,
) -> Tensor:
    """A weighted sum of the image and of a random piece of a random texture."""
    side = images.shape[1]
    table = photographs or textures.drawn(side)
    pieces = _random_pieces(table, side, draws.uniform(3).cpu().double())
    return truncate(image_weight * images + frost_weight * pieces.to(images.device))


def _random_pieces(table: Sequence[Tensor], side: int, uniform: Tensor) -> Tensor:
    """[batch, side, side, 3]; the columns of `uniform` choose the texture, the row and the column."""
    sizes = torch.tensor([texture.shape[:2] for texture in table])
    if int(sizes.min()) <= side:
        raise ShapeError(
            f"a frost texture of {sizes.tolist()} (a fifth of its file) is no larger than the image, {side}."
        )
    starts = torch.tensor([0] + [texture.shape[0] * texture.shape[1] for texture in table]).cumsum(0)
    which = (uniform[:, 0] * len(table)).long()
    first = (uniform[:, 1:] * (sizes[which] - side)).long()  # [batch, 2], the far end never reached
    steps, width = torch.arange(side), sizes[which, 1].view(-1, 1, 1)
    down, across = first[:, 0, None] + steps, first[:, 1, None] + steps
    place = starts[which].view(-1, 1, 1) + down[:, :, None] * width + across[:, None, :]
    pixels = torch.cat([texture.reshape(-1, 3) for texture in table])
    return pixels.index_select(0, place.flatten()).view(-1, side, side, 3)


def snow(
    images: Tensor,
    draws: Draws,
    mean: float,
    sd: float,
    zoom: float,
    threshold: float,
    radius: float,
    sigma: float,
    kept: float,
) -> Tensor:
    """Bleach the image, then add flakes that fall, and the same flakes upside down.

    Bit by bit as the original: the image in float32, cut off in float64. The flakes are whole levels.
    """
    side = images.shape[1]
    flakes = draws.normal(1, side, side, mean=mean, sd=sd).double()
    magnify = kernels.zoom(side, *kernels.zoom_geometry(side, zoom)).unsqueeze(0)
    flakes = threshold_below(kernels.apply(flakes, magnify, magnify), threshold, 0).clamp_(max=1)
    flakes = flakes.mul_(255).to(torch.uint8).view(-1, side, side, 1)
    fallen = directional_blur(flakes, draws.uniform(low=-135, high=-45).cpu(), radius, sigma)
    falling = fallen.view(-1, 1, side, side).to(torch.int16)
    bleached = _bleach(to_planes(images).div_(255), kept).double().mul_(255).to(torch.int16)
    snowy = bleached.add_(falling + falling.flip(2, 3)).clamp_(max=255).to(torch.uint8)
    return snowy.permute(0, 2, 3, 1).contiguous()


def _bleach(x: Tensor, kept: float) -> Tensor:
    """kept · x + (1 − kept) · max(x, 1.5 g + ½), g the luma."""
    red, green, blue = x.split(1, 1)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    return torch.maximum(x, luma.mul_(1.5).add_(0.5)).mul_(1 - kept).add_(x.mul_(kept))


_WATER: Final = (175, 238, 238)
_MUD: Final = (63, 42, 20)
_THIN_MUD: Final = 0.8
_FARTHEST: Final = 20  # pixels
_EMBOSS: Final = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])


def spatter(
    images: Tensor,
    draws: Draws,
    mean: float,
    sd: float,
    sigma: float,
    threshold: float,
    strength: float,
    muddy: float,
) -> Tensor:
    """Smoothed noise above a threshold is liquid: water brightens the image, mud covers it."""
    side = images.shape[1]
    liquid = kernels.smooth(draws.normal(1, side, side, mean=mean, sd=sd), sigma)
    liquid = torch.where(liquid < threshold, 0, liquid)
    cover = _mud if muddy else _water
    return from_planes(cover(to_planes(images), liquid, threshold, strength))


def _mud(planes: Tensor, liquid: Tensor, threshold: float, sigma: float) -> Tensor:
    mask = kernels.smooth((liquid > threshold).float(), sigma)
    mask = torch.where(mask < _THIN_MUD, 0, mask)
    return torch.lerp(planes, _colour(_MUD, planes), mask)


def _water(planes: Tensor, liquid: Tensor, threshold: float, strength: float) -> Tensor:
    depth = (255 * liquid).to(torch.uint8).squeeze(1).cpu().numpy()  # [batch, side, side]
    shine = _shine(depth).to(planes) * liquid.new_tensor(depth)
    thickest = shine.amax((1, 2), keepdim=True).clamp(min=1)  # 0 where there is no liquid at all
    return planes + (strength * shine / thickest).unsqueeze(1) * _colour(_WATER, planes)


def _colour(levels: tuple[int, int, int], planes: Tensor) -> Tensor:
    return planes.new_tensor(levels).view(3, 1, 1)


def _shine(depth: NDArray[np.uint8]) -> Tensor:
    """Where drops catch the light: an embossed relief of the distance to the drops' edges."""
    cv2 = opencv("the corruption spatter")
    return torch.from_numpy(np.stack([_relief(cv2, drops) for drops in depth]))


def _relief(cv2: ModuleType, drops: NDArray[np.uint8]) -> Any:
    edges = cv2.Canny(drops, 50, 150)
    distance = cv2.distanceTransform(255 - edges, cv2.DIST_L2, 5)
    near = cv2.blur(np.minimum(distance, _FARTHEST), (3, 3)).astype(np.uint8)
    relief = cv2.filter2D(cv2.equalizeHist(near), cv2.CV_8U, _EMBOSS)
    return cv2.blur(relief, (3, 3))


def plasma(corners: Tensor, side: int, decay: float, draws: Draws) -> Tensor:
    """Maps in [0, 1], [batch, side, side], that start from zeros [batch, 1, 1]; `side` is a power of two.

    Each level doubles the grid: centres are the mean of their corners, midpoints of edges the mean of the
    two corners and two centres around them, both + a U(−a, a); a starts at 100 and is divided by `decay` at
    each level.
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
