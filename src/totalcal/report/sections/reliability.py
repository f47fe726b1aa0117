"""Class overlap: reliability diagrams with counts."""

from totalcal.report.artefacts import Reliability
from totalcal.report.blocks import Plots, Section
from totalcal.report.collect import Board
from totalcal.report.figures import reliability
from totalcal.report.model_plots import model_plots
from totalcal.report.score_cells import first_seeds_in_words


def reliability_section(board: Board) -> Section | None:
    """Accuracy against confidence, a diagram a model."""
    plots = model_plots(board, "reliability", lambda kept: kept.reliability, reliability.draw, _in_words)
    if not plots:
        return None
    caption = (
        "Blue: accuracy in each bin of confidence, larger where inputs are many. Dashes: perfect honesty. "
        "Red: the gap. "
        f"Grey: the share of the test inputs in the bin. {first_seeds_in_words(board)}"
    )
    return Section(
        "reliability",
        "Is it right as often as it is sure?",
        "Beneath the dashes a model is surer than it should be, above them less sure than it could be.",
        [Plots("reliability", caption, plots)],
    )


def _in_words(curve: Reliability) -> str:
    filled = curve.counts > 0
    weights = curve.counts[filled] / curve.counts.sum()
    sure, right = (float(weights @ values[filled]) for values in (curve.confidence, curve.accuracy))
    return f"mean confidence {sure:.1%}, accuracy {right:.1%}."
