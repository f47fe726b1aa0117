"""Where a legend stands: above the axes, so that it hides no line."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def legend_above(axes: "Axes", columns: int = 3) -> None:
    axes.legend(
        ncols=columns,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        columnspacing=1,
        labelspacing=0.3,
    )
