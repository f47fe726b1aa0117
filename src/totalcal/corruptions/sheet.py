"""One image in all its corruptions on one sheet."""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from totalcal.corruptions.registry import CORRUPTIONS
from totalcal.corruptions.severities import SEVERITIES
from totalcal.corruptions.stream import corrupt
from totalcal.errors import MissingExtraError

if TYPE_CHECKING:
    from PIL.Image import Image

_GAP: Final = 2
_LABEL: Final = 116  # pixels that the longest name takes
_LINE: Final = 12  # height of a line of text


def contact_sheet(image: NDArray[np.uint8], seed: int = 0) -> "Image":
    """A row a type, a column a severity, names on the left."""
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise MissingExtraError("Pillow", "corruptions", "a contact sheet") from error
    step = len(image) + _GAP
    sheet = Image.new("RGB", (_LABEL + len(SEVERITIES) * step, len(CORRUPTIONS) * step), "white")
    pen = ImageDraw.Draw(sheet)
    for row, type in enumerate(CORRUPTIONS):
        pen.text((_GAP, row * step + (step - _LINE) // 2), type, fill="black")
        for column, severity in enumerate(SEVERITIES):
            corrupted = corrupt(image[None], type, severity, seed)[0]
            sheet.paste(Image.fromarray(corrupted), (_LABEL + column * step, row * step))
    return sheet
