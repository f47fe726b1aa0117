"""What the demo and the tutorials run on: handwritten digits, and letters drawn from the fonts at hand."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from totalcal.errors import MissingExtraError


class Arrays(NamedTuple):
    """`inputs`: uint8 images [n, height, width(, channels)], int64 tokens [n, length] or float32 tables."""

    inputs: NDArray[Any]
    labels: NDArray[np.int64]


def digits() -> Arrays:
    """The 1,797 handwritten digits that scikit-learn carries: uint8 [1797, 8, 8], values to 255.

    >>> digits().inputs.shape
    (1797, 8, 8)
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return Arrays((images.reshape(-1, 8, 8) * 255 / 16).round().astype(np.uint8), labels.astype(np.int64))


LETTERS = "ACDEFHJKLMNPRTUVWXYacdefhkmnprtuvwxy"
LOOK_LIKE_DIGITS = "BGIOQSZbgijloqsz"
FACES = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSerif", "DejaVuSerif-BoldItalic",
         "DejaVuSansMono", "STIXGeneral", "STIXGeneralItalic", "cmr10", "cmtt10")  # fmt: skip
DRAWN = 40  # pixels of a letter before it is brought to size, unless that is larger
MAX_DEGREES = 15.0
HEIGHTS = (0.75, 1.0)  # of a letter, in parts of the picture
STROKES = (0.0, 0.05)  # how much thicker than the face has it, in parts of the letter


def letters(size: int = 28, count: int = 10_000, seed: int = 0) -> Arrays:
    """White letters on black [count, size, size], a little turned, moved and scaled; labels count LETTERS.

    >>> images, labels = letters(size=8, count=3)
    >>> images.shape, images.dtype.name
    ((3, 8, 8), 'uint8')
    """
    draw = np.random.default_rng(seed)
    labels = draw.integers(len(LETTERS), size=count)
    fonts = _fonts(max(DRAWN, size))
    images = [_picture(draw, fonts[draw.integers(len(fonts))], LETTERS[label], size) for label in labels]
    return Arrays(np.stack(images), labels.astype(np.int64))


def _picture(draw: np.random.Generator, font: Any, letter: str, size: int) -> NDArray[np.uint8]:
    from PIL import Image, ImageDraw

    canvas = Image.new("L", (2 * font.size, 2 * font.size))
    thickness = round(draw.uniform(*STROKES) * font.size)
    middle = (font.size, font.size)
    ImageDraw.Draw(canvas).text(middle, letter, 255, font, anchor="mm", stroke_width=thickness)
    turned = canvas.rotate(draw.uniform(-MAX_DEGREES, MAX_DEGREES), resample=Image.Resampling.BILINEAR)
    ink = turned.crop(turned.getbbox())
    scale = draw.uniform(*HEIGHTS) * size / max(ink.size)
    width, height = (max(1, round(side * scale)) for side in ink.size)
    corner = (
        int(draw.integers(size - width, endpoint=True)),
        int(draw.integers(size - height, endpoint=True)),
    )
    picture = Image.new("L", (size, size))
    picture.paste(ink.resize((width, height), resample=Image.Resampling.BOX), corner)
    return np.asarray(picture)


def _fonts(height: int) -> list[Any]:
    try:
        import matplotlib
        from PIL import ImageFont
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "drawing letters") from error
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return [ImageFont.truetype(folder / f"{face}.ttf", height) for face in FACES]
