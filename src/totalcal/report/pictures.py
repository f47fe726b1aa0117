"""Inputs as pictures: a PNG in a data address, enlarged by the page without smoothing."""

import base64
import io

import numpy as np

from totalcal.errors import MissingExtraError


def is_picture(values: np.ndarray) -> bool:
    """Whether an input can be shown: bytes, height × width × 1 or 3 channels."""
    return values.dtype == np.uint8 and values.ndim == 3 and values.shape[-1] in (1, 3)


def address(picture: np.ndarray) -> str:
    """A picture, height × width × channels, as a data address."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pillow", "report", "showing pictures") from error
    buffer = io.BytesIO()
    Image.fromarray(picture[..., 0] if picture.shape[-1] == 1 else picture).save(
        buffer, format="png", optimize=True
    )
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
