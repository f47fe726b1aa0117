"""Reliability: is the model right as often as it is sure?"""

from typing import TYPE_CHECKING

import numpy as np

from totalcal.report.artefacts import Reliability
from totalcal.report.palette import BLUE, INK, RULE, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(axes: "Axes", curve: Reliability) -> None:
    """Accuracy against confidence, the gap to honesty shaded, the share of the inputs in each bin beneath."""
    filled = curve.counts > 0
    confidence, accuracy = curve.confidence[filled], curve.accuracy[filled]
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
    sizes = 6 + 90 * np.sqrt(
        curve.counts[filled] / curve.counts.sum()
    )  # few inputs, little weight for the eye
    axes.vlines(confidence, accuracy, confidence, color=VERMILLION, linewidth=2.5, alpha=0.45)
    axes.plot(confidence, accuracy, color=BLUE, linewidth=0.8, alpha=0.5)
    axes.scatter(confidence, accuracy, sizes, color=BLUE, linewidths=0, zorder=3, clip_on=False)
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="confidence", ylabel="accuracy")
    _counts(axes, curve)


def _counts(axes: "Axes", curve: Reliability) -> None:
    below = axes.twinx()
    shares = curve.counts / curve.counts.sum()
    below.bar(curve.edges[:-1], shares, np.diff(curve.edges), align="edge", color=RULE, alpha=0.7)
    below.set(ylim=(0, 3.2), yticks=[0, 1], yticklabels=["0", "all"])
    below.grid(visible=False)
    axes.set_zorder(below.get_zorder() + 1)
    axes.patch.set_visible(False)
