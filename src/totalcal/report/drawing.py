"""Plots to files: inline SVG that follows the page's colours, PDF for a paper; same data, same bytes."""

import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from totalcal.errors import MissingExtraError
from totalcal.report.blocks import Plot
from totalcal.report.palette import INK, ON_THE_PAGE, RULE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
