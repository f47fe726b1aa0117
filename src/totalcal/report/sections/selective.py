"""Selective prediction: what is left of the error when a model may refuse."""

from functools import partial

import numpy as np

from totalcal.report.blocks import Plot, Plots, Section
from totalcal.report.collect import Board
from totalcal.report.figures import lines
from totalcal.report.score_cells import first_seeds_in_words

_SURE = 0.8


def selective_section(board: Board) -> Section | None:
    """Risk against coverage, all models in one plot."""
    curves = {
        model: kept.risk_coverage for model, kept in board.artefacts.items() if kept.risk_coverage is not None
    }
    if not curves:
        return None
    words = "; ".join(
        f"{model} {float(np.interp(_SURE, curve.coverage, curve.risk)):.1%}"
        for model, curve in curves.items()
    )
    plot = Plot(
        f"{board.name}-risk",
        "Risk and coverage",
        f"Error on the {_SURE:.0%} of the inputs that a model is surest of: {words}.",
        partial(lines.draw_risk_coverage, curves=curves),
        size=(4.8, 3.8),
    )
    return Section(
        "selective",
        "What if it may refuse?",
        "A model passes on the inputs it is least sure of: how often is it wrong on the rest?",
        [Plots("risk", first_seeds_in_words(board), [plot])],
    )
