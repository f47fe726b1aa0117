"""Digital: what cameras and codecs do to colours and pixels."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from totalcal.corruptions.draws import Draws
from totalcal.corruptions.extras import opencv
from totalcal.corruptions.pixels import SLACK


def contrast(images: Tensor, draws: Draws, factor: float) -> Tensor:
    """(x − μ) · factor + μ, μ the mean of each channel of the image."""
    side = images.shape[1]
    rows = images.flatten(2).float()  # [batch, side, side · 3]
    of_each_channel = torch.eye(3, device=rows.device).repeat(side, side).div_(side)
    mean = rows.mean(1) @ of_each_channel  # [batch, side · 3]
    nearer = rows.lerp_(mean.add_(SLACK / (1 - factor)).unsqueeze(1), 1 - factor)
    return nearer.to(torch.int16).to(torch.uint8).view_as(images)  # in between levels: nothing to clip


def brightness(images: Tensor, draws: Draws, added: float) -> Tensor:
    """V of HSV to V + added."""
    value, saturation, distance = _to_hsv(images)
    return _from_hsv((value + added).clamp_(max=1), saturation, distance)


def saturate(images: Tensor, draws: Draws, factor: float, offset: float) -> Tensor:
    """S of HSV to factor · S + offset. A grey pixel counts as red; without offset it stays as it is."""
    value, saturation, distance = _to_hsv(images)
    return _from_hsv(value, saturation.mul_(factor).add_(offset).clamp_(0, 1), distance)


def _to_hsv(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """V, S, and in place of the hue how far each channel lies below V: 1 for the lowest, 0 for the highest.

    In float64: many results are whole levels, and the original cuts them off where they come out just below.
    """
    planes = images.permute(0, 3, 1, 2).contiguous().double().div_(255)
    value = planes.amax(1, keepdim=True)
    chroma = value - planes.amin(1, keepdim=True)
    red = planes.new_tensor([0, 1, 1]).view(3, 1, 1)
    distance = torch.where(chroma > 0, (value - planes).div_(chroma), red)
    return value, torch.where(value > 0, chroma / value, 0), distance


def _from_hsv(value: Tensor, saturation: Tensor, distance: Tensor) -> Tensor:
    """V (1 − distance · S), cut off to bytes."""
    planes = (1 - distance * saturation).mul_(value)
    return planes.mul_(255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def pixelate(images: Tensor, draws: Draws, scale: float) -> Tensor:
    """Box resize to ⌊scale · side⌋ and back, rounded to bytes after each axis."""
    first, last = (index.to(images.device) for index in _boxes(images.shape[1], scale))
    for axis in (2, 1):
        images = _rounded_mean(images.index_select(axis, first), images.index_select(axis, last))
    return images


def _rounded_mean(one: Tensor, other: Tensor) -> Tensor:
    """⌊(a + b + 1) / 2⌋ without leaving bytes."""
    return (one | other) - ((one ^ other) >> 1)


@lru_cache(maxsize=8)
def _boxes(side: int, scale: float) -> tuple[Tensor, Tensor]:
    """The first and the last pixel of the box that each pixel is replaced by.

    A box is one pixel or two, as no scale is below ½; back at full size, a pixel takes the box around it.
    """
    small = int(side * scale)
    centres = torch.arange(small, dtype=torch.float64).add(0.5).mul(side / small)
    half = side / small / 2
    first = (centres - half + 0.5).floor().long()
    last = (centres + half - 0.5).floor().long()
    box = torch.arange(side, dtype=torch.float64).add(0.5).mul(small / side).floor().long()
    return first[box], last[box]


def jpeg_compression(images: Tensor, draws: Draws, quality: float) -> Tensor:
    """Through libjpeg and back: 4:2:0 chroma, standard tables."""
    cv2 = opencv("the corruption jpeg_compression")
    settings = [cv2.IMWRITE_JPEG_QUALITY, int(quality)]
    blue_first = images.flip(-1).cpu().numpy()
    decoded = [
        cv2.imdecode(cv2.imencode(".jpg", image, settings)[1], cv2.IMREAD_COLOR) for image in blue_first
    ]
    return torch.from_numpy(np.stack(decoded)).to(images.device).flip(-1)
