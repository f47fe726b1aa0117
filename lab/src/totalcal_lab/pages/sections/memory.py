"""What the memory holds: cells by class, who reads which cell, which training examples stand behind it."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from totalcal.report import Block, Gallery, Picture, Plot, Plots, Section, address
from totalcal_lab.pages.boards import Artefacts, Board, Memory
from totalcal_lab.pages.drawing import is_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 20  # with a name beside them
_MOST_MODELS = 3


def memory_section(board: Board) -> Section | None:
    """One set of blocks for each model with a memory."""
    with_memory = [(model, kept) for model, kept in board.artefacts.items() if kept.memory is not None]
    blocks = [
        block
        for model, kept in with_memory[:_MOST_MODELS]
        if kept.memory is not None
        for block in _blocks(board, model, kept, kept.memory)
    ]
    if not blocks:
        return None
    return Section(
        "memory",
        "What does the memory hold?",
        "The paper leaves the explainability of the memory open. A cell is evidence for some classes and "
        "against others, is read by some, and was written by training examples. Of each model's first seed.",
        blocks,
    )


def _blocks(board: Board, model: str, kept: Artefacts, memory: Memory) -> list[Block]:
    height = 1.0 + 0.17 * min(len(kept.classes), _MOST_ROWS)
    cells = Plot(
        f"{board.name}-{model}-cells",
        f"{model}: content of the cells",
        f"Heat map of {len(memory.cells)} cells. {_strongest(memory, kept.classes)}",
        partial(draw_cells, cells=memory.cells, classes=kept.classes),
        size=(4.6, height),
    )
    attention = Plot(
        f"{board.name}-{model}-attention",
        f"{model}: who reads which cell",
        f"Heat map of the attention of each class to each cell. {_readers(memory, kept.classes)}",
        partial(draw_attention, attention=memory.attention, classes=kept.classes),
        size=(4.6, height),
    )
    caption = "What each cell says about each class, and how the training inputs of a class read it."
    plots = Plots(f"memory-{model}", caption, [cells, attention])
    return [plots, *_gallery(memory, kept.classes)]


def _gallery(memory: Memory, classes: tuple[str, ...]) -> list[Block]:
    if memory.inputs is None or memory.labels is None or not is_picture(memory.inputs[0, 0]):
        return []
    pictures = [
        Picture(
            address(_strip(inputs)),
            f"training examples of {', '.join(classes[label] for label in labels)}",
            f"cell {cell}",
            ", ".join(dict.fromkeys(classes[label] for label in labels)),
        )
        for cell, (inputs, labels) in enumerate(zip(memory.inputs, memory.labels, strict=True))
    ]
    return [Gallery("The training examples that pay each cell the most attention", pictures)]


def _strip(inputs: np.ndarray) -> np.ndarray:
    """Pictures side by side, a line of white between them."""
    gap = np.full_like(inputs[0][:, :1], 255)
    parts = [part for picture in inputs for part in (picture, gap)]
    return np.concatenate(parts[:-1], axis=1)


def _strongest(memory: Memory, classes: tuple[str, ...]) -> str:
    strongest = memory.cells.argmax(1)
    counts = np.bincount(strongest, minlength=len(classes))
    shown = ", ".join(f"{classes[k]} {n}" for k, n in enumerate(counts) if n)
    return f"Cells whose strongest evidence is for: {shown}."


def _readers(memory: Memory, classes: tuple[str, ...]) -> str:
    read = np.nan_to_num(memory.attention).argmax(1)
    return (
        "Most read: "
        + ", ".join(f"{name} cell {cell}" for name, cell in zip(classes, read, strict=True))
        + "."
    )


def draw_cells(axes: "Axes", cells: np.ndarray, classes: Sequence[str]) -> None:
    """The content of each cell, one row per class; orange is for the class, purple against it."""
    limit = float(np.abs(cells).max()) or 1.0
    _heat_map(axes, cells.T, classes, "PuOr_r", (-limit, limit), "content")


def draw_attention(axes: "Axes", attention: np.ndarray, classes: Sequence[str]) -> None:
    """How the inputs of each class share their attention over the cells; a row sums to one."""
    _heat_map(axes, attention, classes, "cividis", (0.0, float(np.nanmax(attention))), "share of attention")


def _heat_map(
    axes: "Axes",
    values: np.ndarray,
    classes: Sequence[str],
    colours: str,
    limits: tuple[float, float],
    label: str,
) -> None:
    mesh = axes.pcolormesh(
        values, cmap=colours, vmin=limits[0], vmax=limits[1], edgecolors="face", linewidth=0.3
    )
    rows, columns = values.shape
    axes.grid(visible=False)
    every_row, every_column = -(-rows // _MOST_ROWS), max(columns // 10, 1)
    axes.set_xlabel("cell")
    axes.set_xticks(np.arange(0, columns, every_column) + 0.5, map(str, range(0, columns, every_column)))
    axes.set_yticks(np.arange(0, rows, every_row) + 0.5, classes[::every_row])
    axes.invert_yaxis()
    axes.figure.colorbar(mesh, ax=axes, label=label, fraction=0.05, pad=0.02)
