"""Spatter: drops of water or mud on the lens."""

from types import ModuleType
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from totalcal.corruptions import linear
from totalcal.corruptions.draws import Draws
from totalcal.corruptions.extras import opencv
from totalcal.corruptions.pixels import from_planes, to_planes

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
    liquid = linear.smooth(draws.normal(1, side, side, mean=mean, sd=sd), sigma)
    liquid = torch.where(liquid < threshold, 0, liquid)
    cover = _mud if muddy else _water
    return from_planes(cover(to_planes(images), liquid, threshold, strength))


def _mud(planes: Tensor, liquid: Tensor, threshold: float, sigma: float) -> Tensor:
    mask = linear.smooth((liquid > threshold).float(), sigma)
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
