"""Under corruption: error and ECE against severity (Figure 3 of the paper)."""

from collections import defaultdict
from functools import partial
from statistics import fmean

from totalcal.records import describe
from totalcal.report.blocks import Plot, Plots, Section
from totalcal.report.collect import Board
from totalcal.report.figures import lines

_KEYS = ("error", "ece")


def corruptions_section(board: Board) -> Section | None:
    """A plot a score, a line a model; None where nothing was corrupted."""
    if not board.corruptions:
        return None
    plots = [_plot(board, key) for key in _KEYS]
    types = len({line["corruption"] for line in board.corruptions})
    return Section(
        "corruptions",
        "How does it bear corruption?",
        "A model that knows when its inputs go bad grows less sure as it errs more: its ECE stays low.",
        [
            Plots(
                "corruptions",
                f"Means over {types} types of corruption and all seeds; severity 0 is clean.",
                plots,
            )
        ],
    )


def _plot(board: Board, key: str) -> Plot:
    curves = _curves(board, key)
    words = "; ".join(f"{model} from {means[0]:.1%} to {means[-1]:.1%}" for model, means in curves.items())
    title = describe(key).title
    return Plot(
        f"{board.name}-corruptions-{key}",
        title,
        f"{title} from clean inputs to the highest severity: {words}.",
        partial(lines.draw_severities, values=curves, score=title),
        size=(4.2, 3.6),
    )


def _curves(board: Board, key: str) -> dict[str, list[float]]:
    """Model → means by severity, the clean test set first."""
    values: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in board.corruptions:
        values[line["model"]][line["severity"]].append(line[key])
    return {
        model: [board.scores[model][key].mean, *(fmean(found[severity]) for severity in sorted(found))]
        for model, found in values.items()
    }
