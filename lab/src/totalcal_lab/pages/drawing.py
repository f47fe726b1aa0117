"""How the page of a grid is drawn: the line of each model, figures as PDF for a paper.

Each model's line has a colour, a style and a marker, so that no reader depends on one of them.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from totalcal.report import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, STYLE, VERMILLION, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TERMS = {"reducible": BLUE, "irreducible": ORANGE, "data": GREEN}


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


def percent_axis(axes: "Axes") -> None:
    """Upwards from 0, in percent."""
    from matplotlib.ticker import PercentFormatter

    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=None))


def pdf(plots: Sequence[Plot], path: Path, columns: int = 4) -> None:
    """The plots as panels of one page."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = min(columns, len(plots))
    rows = math.ceil(len(plots) / columns)
    width, height = (max(plot.size[side] for plot in plots) for side in (0, 1))
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "grid.color": "#dddddd"}):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        for position, plot in enumerate(plots, start=1):
            axes = figure.add_subplot(rows, columns, position)
            plot.draw(axes)
            axes.set_title(plot.title)
        figure.savefig(path, format="pdf", metadata={"CreationDate": None})


def is_picture(values: np.ndarray) -> bool:
    """Whether an input can be shown: bytes, height × width × 1 or 3 channels."""
    return values.dtype == np.uint8 and values.ndim == 3 and values.shape[-1] in (1, 3)
