"""Domain mismatch: the entropy of own and foreign inputs, and the detector it makes."""

from functools import partial

from totalcal.report.artefacts import Entropies, Roc
from totalcal.report.blocks import Plot, Plots, Section
from totalcal.report.collect import Board
from totalcal.report.figures import entropy
from totalcal.report.model_plots import model_plots
from totalcal.report.score_cells import first_seeds_in_words

_ALARMS = 0.05


def domain_section(board: Board) -> Section | None:
    """Histograms, a plot a model; ROC curves beneath them, a plot a foreign set."""
    histograms = model_plots(
        board, "entropy", lambda kept: kept.entropies, entropy.draw_histograms, _histograms_in_words
    )
    blocks = [
        Plots("entropy", f"Predictive entropy. {first_seeds_in_words(board)}", histograms),
        Plots("roc", "ROC curves of the entropy as a detector; foreign is positive.", _roc_plots(board)),
    ]
    found = [block for block in blocks if block.plots]
    if not found:
        return None
    return Section(
        "domain",
        "Does it notice foreign inputs?",
        "The further the histograms lie apart, the better the entropy tells foreign inputs from own ones.",
        found,
    )


def _roc_plots(board: Board) -> list[Plot]:
    members = dict.fromkeys(member for kept in board.artefacts.values() for member in kept.rocs)
    return [_roc_plot(board, member) for member in members]


def _roc_plot(board: Board, member: str) -> Plot:
    rocs = {model: kept.rocs[member] for model, kept in board.artefacts.items() if member in kept.rocs}
    words = ", ".join(f"{model} {_found(roc):.0%}" for model, roc in rocs.items())
    return Plot(
        f"{board.name}-{member}-roc",
        f"told from {member}",
        f"Share of {member} found at {_ALARMS:.0%} false alarms: {words}.",
        partial(entropy.draw_rocs, rocs=rocs),
        size=(4.2, 3.8),
    )


def _found(roc: Roc) -> float:
    return float(max(roc.true_positive[roc.false_positive <= _ALARMS], default=0.0))


def _histograms_in_words(histograms: Entropies) -> str:
    centres = (histograms.edges[:-1] + histograms.edges[1:]) / 2
    means = {
        name: float(counts @ centres / max(counts.sum(), 1))
        for name, counts in {"in-domain": histograms.in_domain, **histograms.foreign}.items()
    }
    return "mean entropy " + ", ".join(f"{name} {mean:.2f}" for name, mean in means.items()) + "."
