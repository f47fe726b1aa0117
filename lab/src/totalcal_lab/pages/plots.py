"""A plot for each model of a board."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from totalcal.report import Plot
from totalcal_lab.pages.boards import Artefacts, Board

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


def first_seeds_in_words(board: Board) -> str:
    """Which seeds the curves are of: the first of each model."""
    by_seed: dict[int, list[str]] = {}
    for model in board.drawn:
        by_seed.setdefault(board.of(model)[0].seed, []).append(model)
    some = (
        ""
        if len(board.drawn) == len(board.models)
        else f" Drawn are {len(board.drawn)} of {len(board.models)} rows."
    )
    if len(by_seed) == 1:
        return f"Curves of seed {next(iter(by_seed))}.{some}"
    shown = "; ".join(f"{seed} of {', '.join(models)}" for seed, models in sorted(by_seed.items()))
    return f"Curves of each model's first seed: {shown}.{some}"
