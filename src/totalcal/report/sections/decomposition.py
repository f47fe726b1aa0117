"""The three-way decomposition for right, wrong and foreign inputs."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from totalcal.report.blocks import Plots, Section
from totalcal.report.collect import Board
from totalcal.report.figures import decomposition
from totalcal.report.model_plots import model_plots
from totalcal.report.palette import TERMS
from totalcal.report.score_cells import first_seeds_in_words


def decomposition_section(board: Board) -> Section | None:
    """Stacked bars, a plot a model, all on one scale."""
    found = [kept.decomposition for kept in board.artefacts.values() if kept.decomposition]
    if not found:
        return None
    widest = max(float(terms.sum()) for groups in found for terms in groups.values())
    plots = model_plots(
        board,
        "decomposition",
        lambda kept: kept.decomposition or None,
        partial(decomposition.draw, limit=1.05 * widest),
        _in_words,
        size=(3.2, 1.0 + 0.3 * max(map(len, found))),
    )
    caption = f"Means over the test inputs of each kind, on one scale. {first_seeds_in_words(board)}"
    return Section(
        "decomposition",
        "Where does the uncertainty lie?",
        "Reducible: more data would help. Irreducible: the class probabilities themselves are not known. "
        "Data: the classes overlap. The three sum to the variance of the label.",
        [Plots("decomposition", caption, plots)],
    )


def _in_words(groups: Mapping[str, np.ndarray]) -> str:
    return "; ".join(f"{group}: {_terms(terms)}" for group, terms in groups.items()) + "."


def _terms(terms: np.ndarray) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in zip(TERMS, terms, strict=True))
