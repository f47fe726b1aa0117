"""What the memory holds: its cells by class, and which of them each class reads (section 7)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 20  # with a name beside them


def draw_cells(axes: "Axes", cells: np.ndarray, classes: Sequence[str]) -> None:
    """The content of each cell, a row a class; orange speaks for the class, purple against it."""
    limit = float(np.abs(cells).max()) or 1.0
    _heat_map(axes, cells.T, classes, "PuOr_r", (-limit, limit), "content")


def draw_attention(axes: "Axes", attention: np.ndarray, classes: Sequence[str]) -> None:
    """How the inputs of each class share their attention over the cells; a row sums to one."""
    _heat_map(axes, attention, classes, "cividis", (0.0, float(np.nanmax(attention))), "share of attention")


def _heat_map(
    axes: "Axes",
    values: np.ndarray,
    classes: Sequence[str],
    colours: str,
    limits: tuple[float, float],
    label: str,
) -> None:
    mesh = axes.pcolormesh(
        values, cmap=colours, vmin=limits[0], vmax=limits[1], edgecolors="face", linewidth=0.3
    )
    rows, columns = values.shape
    axes.grid(visible=False)
    every_row, every_column = -(-rows // _MOST_ROWS), max(columns // 10, 1)
    axes.set_xlabel("cell")
    axes.set_xticks(np.arange(0, columns, every_column) + 0.5, map(str, range(0, columns, every_column)))
    axes.set_yticks(np.arange(0, rows, every_row) + 0.5, classes[::every_row])
    axes.invert_yaxis()
    axes.figure.colorbar(mesh, ax=axes, label=label, fraction=0.05, pad=0.02)
