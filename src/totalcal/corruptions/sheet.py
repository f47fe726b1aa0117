"""One image in all its corruptions on one sheet."""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from totalcal.corruptions.extras import pillow
from totalcal.corruptions.registry import CORRUPTIONS
from totalcal.corruptions.severities import SEVERITIES
from totalcal.corruptions.stream import corrupt

if TYPE_CHECKING:
    from PIL.Image import Image

_GAP: Final = 2
_LABEL: Final = 116  # pixels that the longest name takes
_LINE: Final = 12  # height of a line of text


def contact_sheet(image: NDArray[np.uint8], seed: int = 0) -> "Image":
    """A row a type, a column a severity, names on the left."""
    pictures, drawing = (pillow(module, "a contact sheet") for module in ("Image", "ImageDraw"))
    step = len(image) + _GAP
    sheet: Image = pictures.new("RGB", (_LABEL + len(SEVERITIES) * step, len(CORRUPTIONS) * step), "white")
    pen = drawing.Draw(sheet)
    for row, type in enumerate(CORRUPTIONS):
        pen.text((_GAP, row * step + (step - _LINE) // 2), type, fill="black")
        for column, severity in enumerate(SEVERITIES):
            corrupted = corrupt(image[None], type, severity, seed)[0]
            sheet.paste(pictures.fromarray(corrupted), (_LABEL + column * step, row * step))
    return sheet
