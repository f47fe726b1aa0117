"""Where the uncertainty lies: the three terms (section 3) of right, wrong, OOD and least certain inputs."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from totalcal.report.blocks import Bar, Gallery, Picture, Plots, Section
from totalcal.report.boards import Board, Unsure
from totalcal.report.drawing import (
    TERMS,
    address,
    first_seeds_in_words,
    is_picture,
    legend_above,
    model_plots,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def decomposition_section(board: Board) -> Section | None:
    """Stacked bars, one plot per model, all on one scale."""
    found = [kept.decomposition for kept in board.artefacts.values() if kept.decomposition]
    if not found:
        return None
    widest = max(float(terms.sum()) for groups in found for terms in groups.values())
    plots = model_plots(
        board,
        "decomposition",
        lambda kept: kept.decomposition or None,
        partial(draw_terms, limit=1.05 * widest),
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


def draw_terms(axes: "Axes", terms: Mapping[str, np.ndarray], limit: float) -> None:
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


def _in_words(groups: Mapping[str, np.ndarray]) -> str:
    return "; ".join(f"{group}: {_terms(terms)}" for group, terms in groups.items()) + "."


def _terms(terms: np.ndarray) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in zip(TERMS, terms, strict=True))


def examples_section(board: Board) -> Section | None:
    """The test inputs of highest entropy, one gallery per model, where inputs can be shown."""
    shown = {
        model: [_picture(kept.unsure, kept.classes, row) for row in range(len(kept.unsure.inputs))]
        for model, kept in board.artefacts.items()
        if kept.unsure is not None and is_picture(kept.unsure.inputs[0])
    }
    if not shown:
        return None
    open_one = "etp" if "etp" in shown else next(iter(shown))
    galleries = [
        Gallery(open_one, shown.pop(open_one)),
        *(Gallery(model, pictures, folded=True) for model, pictures in shown.items()),
    ]
    return Section(
        "examples",
        "What is it least sure of?",
        "Test inputs of highest entropy, to each model's first seed. The bar shows where the variance lies: "
        "blue reducible, orange irreducible, green data.",
        galleries,
    )


def _picture(unsure: Unsure, classes: tuple[str, ...], row: int) -> Picture:
    label, predicted = (classes[int(values[row])] for values in (unsure.labels, unsure.predictions))
    return Picture(
        address(unsure.inputs[row]),
        f"a test input of class {label}",
        label,
        "classified rightly" if label == predicted else f"taken for {predicted}",
        _bars(unsure.terms[row]),
    )


def _bars(terms: np.ndarray) -> list[Bar]:
    """The three terms as shares of their sum."""
    total = float(terms.sum()) or 1.0
    return [
        Bar(name, float(value) / total, f"{name} {value:.3f}")
        for name, value in zip(TERMS, terms, strict=True)
    ]
