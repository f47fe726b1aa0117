"""How things are drawn: colours, plots as inline SVG for the page or PDF for a paper, inputs as pictures.

Same data, same bytes. The colours can be told apart by colour-blind people (Okabe and Ito), and each model's
line has a style and a marker too.
"""

import base64
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from totalcal.errors import MissingExtraError
from totalcal.report.blocks import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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

TERMS = {"reducible": BLUE, "irreducible": ORANGE, "data": GREEN}
IN_DISTRIBUTION, OOD = BLUE, (VERMILLION, PURPLE, ORANGE, SKY, GREEN)


class Line(NamedTuple):
    """How the line of a model looks; three signs, so that no reader depends on one."""

    color: str
    linestyle: str | tuple[int, tuple[int, ...]]
    marker: str


KNOWN = {
    "softmax": Line(INK, "-", "o"),
    "bnn": Line(BLUE, "-", "s"),
    "edl": Line(GREEN, "-", "^"),
    "neural_process": Line(SKY, "-", "v"),
    "enp": Line(PURPLE, "-", "D"),
    "anp": Line(ORANGE, "-", "P"),
    "etp": Line(VERMILLION, "-", "*"),
}

_OTHERS = tuple(
    Line(color, dashes, marker)
    for dashes in ((0, (4, 2)), (0, (1, 1)))
    for color, marker in zip((INK, BLUE, GREEN, PURPLE, ORANGE, SKY), "X<>hdp", strict=True)
)


def line(model: str, models: list[str]) -> Line:
    """The line of a model among `models`; those we do not know share the dashed ones, in order.

    >>> line("etp", ["etp"]).color == VERMILLION
    True
    """
    if model in KNOWN:
        return KNOWN[model]
    return _OTHERS[[name for name in models if name not in KNOWN].index(model) % len(_OTHERS)]


_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
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
_ON_PAPER = {"grid.color": "#dddddd"}


def percent_axis(axes: "Axes") -> None:
    """Upwards from 0, in percent."""
    from matplotlib.ticker import PercentFormatter

    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=None))


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
    with _style(_ON_SCREEN | {"svg.hashsalt": plot.name}):
        figure = _figure(plot.size)
        plot.draw(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inline(buffer.getvalue())


def pdf(plots: Sequence[Plot], path: Path, columns: int = 4) -> None:
    """The plots as panels of one page."""
    columns = min(columns, len(plots))
    rows = math.ceil(len(plots) / columns)
    width, height = (max(plot.size[side] for plot in plots) for side in (0, 1))
    with _style(_ON_PAPER):
        figure = _figure((width * columns, height * rows))
        for position, plot in enumerate(plots, start=1):
            axes = figure.add_subplot(rows, columns, position)
            plot.draw(axes)
            axes.set_title(plot.title)
        figure.savefig(path, format="pdf", metadata={"CreationDate": None})


def _style(changes: dict[str, Any]) -> Any:
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "drawing figures") from error
    return mpl.rc_context({**mpl.rcParamsDefault, **_STYLE, **changes})


def _figure(size: tuple[float, float]) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


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
