"""The nineteen corruptions by name, and how strong each is at severities 1 to 5: the settings of CIFAR-10-C.

Lengths are in pixels of the image as it comes, whatever its side; what scales with the side says so.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from torch import Tensor

from totalcal.errors import InputError, UnknownNameError
from totalcal_lab.corruptions import blur, digital, weather
from totalcal_lab.corruptions.kernels import BlockDraws

SEVERITIES: Final = (1, 2, 3, 4, 5)
"""From the mildest to the strongest."""

Parameters = tuple[float, ...]

# The order is that of CIFAR-10-C: the fifteen of the benchmark, then the four held out from it.
PARAMETERS: Final[dict[str, tuple[Parameters, ...]]] = {
    # standard deviation
    "gaussian_noise": ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,)),
    # photons of a white pixel
    "shot_noise": ((500,), (250,), (100,), (75,), (50,)),
    # share of values replaced
    "impulse_noise": ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,)),
    # radius of the disk, sigma that softens its edge
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    # sigma of the smoothing, passes
    "glass_blur": ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2)),
    # radius, sigma along the direction
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    # number of zoom factors 1.00, 1.01, …
    "zoom_blur": ((7,), (12,), (16,), (21,), (26,)),
    # mean, sd of the flakes, their zoom, threshold, radius and sigma of their fall, share of the image kept
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    # weight of the image, of the texture
    "frost": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    # amount, decay of the roughness per level
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    # added to V of HSV
    "brightness": ((0.05,), (0.10,), (0.15,), (0.20,), (0.30,)),
    # factor about the mean
    "contrast": ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,)),
    # length and smoothness of the displacement, jitter of the affine map; all three in sides of the image
    "elastic_transform": (
        (0, 0, 0.08),
        (0.05, 0.2, 0.07),
        (0.08, 0.06, 0.06),
        (0.1, 0.04, 0.05),
        (0.1, 0.03, 0.03),
    ),
    # side of the small image, in sides of the image
    "pixelate": ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,)),
    # JPEG quality
    "jpeg_compression": ((80,), (65,), (58,), (50,), (40,)),
    # standard deviation, relative to the value
    "speckle_noise": ((0.06,), (0.10,), (0.12,), (0.16,), (0.20,)),
    # sigma
    "gaussian_blur": ((0.4,), (0.6,), (0.7,), (0.8,), (1.0,)),
    # mean, sd of the liquid, its smoothing, threshold, strength of water or sigma of mud, 1 for mud
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    # factor, offset of S of HSV
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
}


class Corruption(NamedTuple):
    """How a type works, and its parameters for severities 1 … 5."""

    function: Callable[..., Tensor]
    severities: tuple[Parameters, ...]


_FUNCTIONS: Final[tuple[Callable[..., Tensor], ...]] = (
    digital.gaussian_noise,
    digital.shot_noise,
    digital.impulse_noise,
    blur.defocus_blur,
    blur.glass_blur,
    blur.motion_blur,
    blur.zoom_blur,
    weather.snow,
    weather.frost,
    weather.fog,
    digital.brightness,
    digital.contrast,
    digital.elastic_transform,
    digital.pixelate,
    digital.jpeg_compression,
    digital.speckle_noise,
    blur.gaussian_blur,
    weather.spatter,
    digital.saturate,
)

CORRUPTIONS: Final = {
    function.__name__: Corruption(function, PARAMETERS[function.__name__]) for function in _FUNCTIONS
}
"""In the order of CIFAR-10-C: the fifteen of the benchmark, then the four held out from it."""


def corruption(
    type: str, severity: int, frost_dir: str | Path | None = None
) -> Callable[[Tensor, BlockDraws], Tensor]:
    """The corruption as a function of bytes [batch, side, side, 3] and random numbers."""
    if type not in CORRUPTIONS:
        raise UnknownNameError("corruption", type, CORRUPTIONS)
    if severity not in SEVERITIES:
        raise InputError(f"severity must be one of {SEVERITIES}, not {severity!r}.")
    function, severities = CORRUPTIONS[type]
    if function is weather.frost and frost_dir is not None:
        function = partial(function, photographs=weather.photographed(frost_dir))
    parameters = severities[SEVERITIES.index(severity)]
    return lambda images, draws: function(images, draws, *parameters)
