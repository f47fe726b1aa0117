"""How things are drawn: colours, plots as inline SVG, inputs as pictures.

Same data, same bytes. The colours can be told apart by colour-blind people (Okabe and Ito).
"""

import base64
import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from totalcal.errors import MissingExtraError
from totalcal.report.blocks import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#010203"
RULE = "#a0b0c0"

BLUE, VERMILLION, GREEN = "#0072b2", "#d55e00", "#009e73"
ORANGE, SKY, PURPLE = "#e69f00", "#56b4e9", "#cc79a7"

ON_THE_PAGE = {
    INK: "currentColor",
    RULE: "var(--rule)",
    BLUE: "var(--blue)",
    VERMILLION: "var(--vermillion)",
    GREEN: "var(--green)",
    ORANGE: "var(--orange)",
    SKY: "var(--sky)",
    PURPLE: "var(--purple)",
}
"""What the page puts in the place of each, so that a figure follows its dark mode."""

IN_DISTRIBUTION, OOD = BLUE, (VERMILLION, PURPLE, ORANGE, SKY, GREEN)


STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a class may be called $x$
    "font.family": "DejaVu Sans",  # matplotlib ships it, so that the layout is the same everywhere
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.5,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
}
_ON_SCREEN = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    "grid.color": RULE,
}


def legend_above(axes: "Axes", columns: int = 3) -> None:
    """Above the axes, so that it hides no line."""
    axes.legend(
        ncols=columns,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        columnspacing=1,
        labelspacing=0.3,
    )


def svg(plot: Plot) -> str:
    """The plot as an SVG element to stand inside of a page."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "drawing figures") from error
    own = {"svg.hashsalt": plot.name}
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, **_ON_SCREEN, **own}):
        figure = Figure(figsize=plot.size, layout="constrained")
        plot.draw(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inline(buffer.getvalue())


def _inline(text: str) -> str:
    """Of a whole SVG file, the element: no prologue, no size but its box, no name that nobody refers to.

    Only tags are touched: between them stand strings of the user and the numbers of the axes.
    """
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
    used = set(re.findall(r"(?:url\(#|href=\"#)([\w-]+)", text))
    return re.sub(r"<[^<>]+>", lambda tag: _slim(tag[0], used), text)


def _slim(tag: str, used: set[str]) -> str:
    tag = re.sub(r' (?:version|xmlns(?::xlink)?)="[^"]*"', "", tag).replace("xlink:href", "href")
    tag = re.sub(r"(\d\.\d\d)\d+", r"\1", tag)
    tag = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", tag)
    for colour, variable in ON_THE_PAGE.items():
        tag = tag.replace(colour, variable)
    return tag


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
