"""Domain mismatch: is the model less sure of foreign inputs than of its own?"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from totalcal.report.artefacts import Entropies, Roc
from totalcal.report.figures.legends import legend_above
from totalcal.report.palette import FOREIGN, IN_DOMAIN, INK, line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = ("-", (0, (4, 2)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (6, 3)))


def draw_histograms(axes: "Axes", histograms: Entropies) -> None:
    """The entropy of in-domain inputs, filled, against that of every foreign set."""
    edges = histograms.edges
    axes.stairs(
        _share(histograms.in_domain), edges, fill=True, color=IN_DOMAIN, alpha=0.55, label="in-domain"
    )
    for (name, counts), color, dashes in zip(histograms.foreign.items(), FOREIGN, _DASHES, strict=False):
        axes.stairs(_share(counts), edges, color=color, linestyle=dashes, linewidth=1.5, label=name)
    axes.set(xlim=(edges[0], edges[-1]), xlabel="entropy (nats)", ylabel="share of inputs")
    legend_above(axes, columns=2)


def draw_rocs(axes: "Axes", rocs: Mapping[str, Roc]) -> None:
    """True against false alarms as the threshold on the entropy moves, a line a model."""
    models = list(rocs)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
    for model, roc in rocs.items():
        color, linestyle, _ = line(model, models)
        axes.plot(roc.false_positive, roc.true_positive, color=color, linestyle=linestyle, label=model)
    axes.set(
        xlim=(-0.01, 1), ylim=(0, 1.01), xlabel="own inputs taken for foreign", ylabel="foreign inputs found"
    )
    legend_above(axes)


def _share(counts: np.ndarray) -> np.ndarray:
    return np.asarray(counts / max(counts.sum(), 1))
