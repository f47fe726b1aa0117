"""Where the uncertainty lies: the three terms of the predictive variance (section 3)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from totalcal.report.figures.legends import legend_above
from totalcal.report.palette import TERMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(axes: "Axes", terms: Mapping[str, np.ndarray], limit: float) -> None:
    """A stacked bar for each group of inputs: reducible, irreducible, data."""
    groups = list(terms)
    stacked = np.array([terms[group] for group in groups])  # [groups, 3]
    left = np.zeros(len(groups))
    for position, (name, color) in enumerate(TERMS.items()):
        widths = stacked[:, position]
        axes.barh(groups, widths, 0.62, left, color=color, label=name)
        left += widths
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set(xlim=(0, limit), xlabel="variance, summed over classes")
    legend_above(axes)
