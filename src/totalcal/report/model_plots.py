"""The same plot for every model that kept what it is drawn from."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from totalcal.report.artefacts import Artefacts
from totalcal.report.blocks import Plot
from totalcal.report.collect import Board

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Part = TypeVar("Part")


def model_plots(
    board: Board,
    kind: str,
    part: Callable[[Artefacts], Part | None],
    draw: Callable[["Axes", Part], None],
    words: Callable[[Part], str],
    size: tuple[float, float] = (3.2, 2.5),
) -> list[Plot]:
    """A plot for each model whose artefacts have the part; `words` are for those who cannot see it."""
    return [
        Plot(
            name=f"{board.name}-{model}-{kind}",
            title=model,
            alternative=f"{model}: {words(found)}",
            draw=partial(_swapped, draw, found),
            size=size,
        )
        for model, kept in board.artefacts.items()
        if (found := part(kept)) is not None
    ]


def _swapped(draw: Callable[["Axes", Part], None], found: Part, axes: "Axes") -> None:
    draw(axes, found)
