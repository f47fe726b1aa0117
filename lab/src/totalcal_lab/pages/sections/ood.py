"""Domain mismatch: the entropy as a detector of OOD inputs, and what a memory of the domain adds to it."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from totalcal.report import IN_DISTRIBUTION, INK, OOD, Plot, Plots, Section, legend_above
from totalcal_lab.pages.boards import Board, Entropies, Roc
from totalcal_lab.pages.drawing import line
from totalcal_lab.pages.plots import first_seeds_in_words, model_plots
from totalcal_lab.records.domain import TABLES, domain_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ALARMS = 0.05
_DASHES = ("-", (0, (4, 2)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (6, 3)))


def domain_section(board: Board) -> Section | None:
    """Histograms, one plot per model; ROC curves beneath them, one plot per OOD set."""
    histograms = model_plots(
        board, "entropy", lambda kept: kept.entropies, draw_histograms, _histograms_in_words
    )
    blocks = [
        Plots("entropy", f"Predictive entropy. {first_seeds_in_words(board)}", histograms),
        Plots("roc", "ROC curves of the entropy as a detector; OOD is positive.", _roc_plots(board)),
    ]
    found = [block for block in blocks if block.plots]
    if not found:
        return None
    return Section(
        "domain",
        "Does it notice OOD inputs?",
        "The further the histograms lie apart, the better the entropy tells OOD from in-distribution inputs.",
        found,
    )


def familiarity_section(board: Board) -> Section | None:
    """Familiarity beside the entropy and the post-hoc baselines; None where no run remembered its domain."""
    lines = domain_lines(run.folder for run in board.runs)
    if not lines:
        return None
    tables = [
        replace(make(lines), name=f"familiarity-{name}", folded=name != "panel")
        for name, make in TABLES.items()
        if name != "summary"
    ]
    return Section(
        "familiarity",
        "Does its memory know the domain?",
        "One net, one score per row, no OOD data seen. A detector is judged by its worst set: "
        "the first column.",
        [table for table in tables if table.groups],
    )


def draw_histograms(axes: "Axes", histograms: Entropies) -> None:
    """The entropy of in-distribution inputs, filled, against that of every OOD set."""
    edges = histograms.edges
    own = _share(histograms.in_distribution)
    axes.stairs(own, edges, fill=True, color=IN_DISTRIBUTION, alpha=0.55, label="in-distribution")
    for (name, counts), color, dashes in zip(histograms.ood.items(), OOD, _DASHES, strict=False):
        axes.stairs(_share(counts), edges, color=color, linestyle=dashes, linewidth=1.5, label=name)
    axes.set(xlim=(edges[0], edges[-1]), xlabel="entropy (nats)", ylabel="share of inputs")
    legend_above(axes, columns=2)


def draw_rocs(axes: "Axes", rocs: Mapping[str, Roc]) -> None:
    """True against false alarms as the threshold on the entropy moves, one line per model."""
    models = list(rocs)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
    for model, roc in rocs.items():
        color, linestyle, _ = line(model, models)
        axes.plot(roc.false_positive, roc.true_positive, color=color, linestyle=linestyle, label=model)
    axes.set(
        xlim=(-0.01, 1),
        ylim=(0, 1.01),
        xlabel="in-distribution inputs taken for OOD",
        ylabel="OOD inputs found",
    )
    legend_above(axes)


def _roc_plots(board: Board) -> list[Plot]:
    members = dict.fromkeys(member for kept in board.artefacts.values() for member in kept.rocs)
    return [_roc_plot(board, member) for member in members]


def _roc_plot(board: Board, member: str) -> Plot:
    rocs = {model: kept.rocs[member] for model, kept in board.artefacts.items() if member in kept.rocs}
    words = ", ".join(f"{model} {_found(roc):.0%}" for model, roc in rocs.items())
    return Plot(
        f"{board.name}-{member}-roc",
        f"OOD set: {member}",
        f"Share of {member} found at {_ALARMS:.0%} false alarms: {words}.",
        partial(draw_rocs, rocs=rocs),
        size=(4.2, 3.8),
    )


def _found(roc: Roc) -> float:
    return float(max(roc.true_positive[roc.false_positive <= _ALARMS], default=0.0))


def _histograms_in_words(histograms: Entropies) -> str:
    centres = (histograms.edges[:-1] + histograms.edges[1:]) / 2
    means = {
        name: float(counts @ centres / max(counts.sum(), 1))
        for name, counts in {"in-distribution": histograms.in_distribution, **histograms.ood}.items()
    }
    return "mean entropy " + ", ".join(f"{name} {mean:.2f}" for name, mean in means.items()) + "."


def _share(counts: np.ndarray) -> np.ndarray:
    return np.asarray(counts / max(counts.sum(), 1))
