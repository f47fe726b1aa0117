"""The test inputs a model is least sure of, with the three terms under each picture."""

import numpy as np

from totalcal.report.artefacts import Unsure
from totalcal.report.blocks import Bar, Gallery, Picture, Section
from totalcal.report.collect import Board
from totalcal.report.palette import TERMS
from totalcal.report.pictures import address, is_picture


def examples_section(board: Board) -> Section | None:
    """A gallery a model, where inputs can be shown."""
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
    right = label == predicted
    return Picture(
        address(unsure.inputs[row]),
        f"a test input of class {label}",
        label,
        "taken rightly" if right else f"taken for {predicted}",
        bars(unsure.terms[row]),
    )


def bars(terms: np.ndarray) -> list[Bar]:
    """The three terms as shares of their sum."""
    total = float(terms.sum()) or 1.0
    return [
        Bar(name, float(value) / total, f"{name} {value:.3f}")
        for name, value in zip(TERMS, terms, strict=True)
    ]
