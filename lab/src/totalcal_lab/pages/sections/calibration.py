"""Whether confidence can be trusted: reliability diagrams, the error when a model may abstain, and where the
uncertainty lies: the three terms (section 3) of right, wrong, OOD and least certain inputs.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from totalcal.report import (
    BLUE,
    INK,
    RULE,
    VERMILLION,
    Gallery,
    Picture,
    Plot,
    Plots,
    Section,
    Share,
    address,
    legend_above,
)
from totalcal_lab.pages.boards import Board, ReliabilityBins, RiskCoverage, Unsure
from totalcal_lab.pages.drawing import TERMS, is_picture, line, percent_axis
from totalcal_lab.pages.plots import first_seeds_in_words, model_plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_SURE = 0.8


def reliability_section(board: Board) -> Section | None:
    """Accuracy against confidence, one diagram per model."""
    plots = model_plots(board, "reliability", lambda kept: kept.reliability, draw_reliability, _in_words)
    if not plots:
        return None
    caption = (
        "Blue: accuracy in each bin of confidence, larger where inputs are many. "
        "Dashes: perfect calibration. Orange: the gap. Grey: the share of the test inputs in the bin. "
        f"{first_seeds_in_words(board)}"
    )
    return Section(
        "reliability",
        "Is it right as often as it is sure?",
        "Beneath the dashes a model is overconfident, above them underconfident.",
        [Plots("reliability", caption, plots)],
    )


def draw_reliability(axes: "Axes", curve: ReliabilityBins) -> None:
    """Accuracy against confidence, the gap shaded, the share of the inputs in each bin beneath."""
    filled = curve.counts > 0
    confidence, accuracy = curve.confidence[filled], curve.accuracy[filled]
    shares = curve.counts / curve.counts.sum()
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
    sizes = 6 + 90 * np.sqrt(shares[filled])  # few inputs, little weight for the eye
    axes.vlines(confidence, accuracy, confidence, color=VERMILLION, linewidth=2.5, alpha=0.45)
    axes.plot(confidence, accuracy, color=BLUE, linewidth=0.8, alpha=0.5)
    axes.scatter(confidence, accuracy, sizes, color=BLUE, linewidths=0, zorder=3, clip_on=False)
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="confidence", ylabel="accuracy")
    below = axes.twinx()
    below.bar(curve.edges[:-1], shares, np.diff(curve.edges), align="edge", color=RULE, alpha=0.7)
    below.set(ylim=(0, 3.2), yticks=[0, 1], yticklabels=["0", "all"])
    below.grid(visible=False)
    axes.set_zorder(below.get_zorder() + 1)
    axes.patch.set_visible(False)


def _in_words(curve: ReliabilityBins) -> str:
    filled = curve.counts > 0
    weights = curve.counts[filled] / curve.counts.sum()
    sure, right = (float(weights @ values[filled]) for values in (curve.confidence, curve.accuracy))
    return f"mean confidence {sure:.1%}, accuracy {right:.1%}."


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
        partial(draw_risk_coverage, curves=curves),
        size=(4.8, 3.8),
    )
    return Section(
        "selective",
        "What if it may abstain?",
        "A model passes on the inputs it is least sure of: how often is it wrong on the rest?",
        [Plots("risk", first_seeds_in_words(board), [plot])],
    )


def draw_risk_coverage(axes: "Axes", curves: Mapping[str, RiskCoverage]) -> None:
    """The error among the inputs that a model is surest of."""
    models = list(curves)
    for model, curve in curves.items():
        color, linestyle, _ = line(model, models)
        axes.plot(curve.coverage, curve.risk, color=color, linestyle=linestyle, label=model)
    axes.set(
        xlim=(0, 1), xlabel="coverage: share of the inputs answered, surest first", ylabel="error among them"
    )
    percent_axis(axes)
    legend_above(axes)


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
        _terms_in_words,
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


def _terms_in_words(groups: Mapping[str, np.ndarray]) -> str:
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
        "classified correctly" if label == predicted else f"taken for {predicted}",
        _bars(unsure.terms[row]),
    )


def _bars(terms: np.ndarray) -> list[Share]:
    """The three terms as shares of their sum."""
    total = float(terms.sum()) or 1.0
    return [
        Share(name, float(value) / total, f"{name} {value:.3f}")
        for name, value in zip(TERMS, terms, strict=True)
    ]
