"""What the memory holds: its cells by class, and which of them each class reads (section 7)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    axes.set(
        xlabel="cell", yticks=np.arange(rows) + 0.5, xticks=np.arange(0, columns, max(columns // 10, 1)) + 0.5
    )
    axes.set_yticklabels(classes)
    axes.set_xticklabels([str(int(tick)) for tick in axes.get_xticks()])
    axes.invert_yaxis()
    axes.figure.colorbar(mesh, ax=axes, label=label, fraction=0.05, pad=0.02)
