"""The nineteen corruptions by name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from torch import Tensor

from totalcal.corruptions import blur, digital, elastic, noise, spatter, textures, weather
from totalcal.corruptions.draws import Draws
from totalcal.corruptions.severities import PARAMETERS, SEVERITIES, Parameters
from totalcal.errors import InputError, UnknownNameError


class Corruption(NamedTuple):
    """How a type works, and its parameters for severities 1 … 5."""

    function: Callable[..., Tensor]
    severities: tuple[Parameters, ...]


_FUNCTIONS: Final[tuple[Callable[..., Tensor], ...]] = (
    noise.gaussian_noise,
    noise.shot_noise,
    noise.impulse_noise,
    blur.defocus_blur,
    blur.glass_blur,
    blur.motion_blur,
    blur.zoom_blur,
    weather.snow,
    weather.frost,
    weather.fog,
    digital.brightness,
    digital.contrast,
    elastic.elastic_transform,
    digital.pixelate,
    digital.jpeg_compression,
    noise.speckle_noise,
    blur.gaussian_blur,
    spatter.spatter,
    digital.saturate,
)

CORRUPTIONS: Final = {
    function.__name__: Corruption(function, PARAMETERS[function.__name__]) for function in _FUNCTIONS
}
"""In the order of CIFAR-10-C: the fifteen of the benchmark, then the four held out from it."""


def corruption(
    type: str, severity: int, frost_dir: str | Path | None = None
) -> Callable[[Tensor, Draws], Tensor]:
    """The corruption as a function of bytes [batch, side, side, 3] and random numbers."""
    if type not in CORRUPTIONS:
        raise UnknownNameError("corruption", type, CORRUPTIONS)
    if severity not in SEVERITIES:
        raise InputError(f"severity must be one of {SEVERITIES}, not {severity!r}.")
    function, severities = CORRUPTIONS[type]
    if function is weather.frost and frost_dir is not None:
        function = partial(function, photographs=textures.photographed(frost_dir))
    parameters = severities[SEVERITIES.index(severity)]
    return lambda images, draws: function(images, draws, *parameters)
