"""Weather: snow, frost, fog."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import threshold as threshold_below

from totalcal.corruptions import linear, textures
from totalcal.corruptions.draws import Draws
from totalcal.corruptions.motion import directional_blur
from totalcal.corruptions.pixels import from_planes, to_planes, truncate
from totalcal.corruptions.plasma import plasma, power_of_two_above
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
    magnify = linear.zoom(side, *linear.zoom_geometry(side, zoom)).unsqueeze(0)
    flakes = threshold_below(linear.apply(flakes, magnify, magnify), threshold, 0).clamp_(max=1)
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
