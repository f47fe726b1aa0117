"""Under corruption: error and ECE against severity (Figure 3), and Table 4."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from totalcal.report import Entry, Plot, Plots, Section, Summary, Table, describe, legend_above
from totalcal_lab.pages.boards import Board
from totalcal_lab.pages.drawing import line, percent_axis
from totalcal_lab.pages.sections.scores import heading
from totalcal_lab.records.bold import bold
from totalcal_lab.records.corruptions import (
    CorruptionColumn,
    corruption_columns,
    shown,
    under_corruption,
)
from totalcal_lab.records.formats import NOTHING
from totalcal_lab.records.paper import corruptions as paper_corruptions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DRAWN = ("error", "ece")
_PRINTED = ("error", "ece_100")


def corruptions_section(board: Board) -> Section | None:
    """Plots first, tables folded away; None where nothing was corrupted."""
    column = _column(board)
    if column is None:
        return None
    caption = (
        f"Means over {column.types} types of corruption and all seeds, {column.examples} test images each; "
        "severity 0 is the clean test set."
    )
    plots = [_plot(board, column, key) for key in _DRAWN]
    return Section(
        "corruptions",
        "How does it behave under corruption?",
        "A model that knows when its inputs go bad grows less sure as it errs more: its ECE stays low.",
        [Plots("corruptions", caption, plots), *(_table(board, column, key) for key in _PRINTED)],
    )


def _column(board: Board) -> CorruptionColumn | None:
    columns = corruption_columns(under_corruption(run.folder for run in board.runs))
    return columns[0] if columns else None


def _plot(board: Board, column: CorruptionColumn, key: str) -> Plot:
    curves = _curves(board, column, key)
    words = "; ".join(
        f"{model} from {means[min(means)]:.1%} to {means[max(means)]:.1%}" for model, means in curves.items()
    )
    title = describe(key).title
    return Plot(
        f"{board.name}-corruptions-{key}",
        title,
        f"{title} from the lowest to the highest severity: {words}.",
        partial(draw_severities, values=curves, score=title),
        size=(4.2, 3.6),
    )


def _curves(board: Board, column: CorruptionColumn, key: str) -> dict[str, dict[int, float]]:
    """Model → severity → mean; the clean test set is severity 0."""
    curves: dict[str, dict[int, float]] = {}
    for severity, summaries in _by_severity(column, key).items():
        for model, summary in ((model, summaries[model]) for model in board.drawn if model in summaries):
            curves.setdefault(model, _clean(board, model, key))[severity] = summary.mean
    return curves


def _clean(board: Board, model: str, key: str) -> dict[int, float]:
    scores = board.scores.get(model, {})
    return {0: scores[key].mean} if key in scores else {}


def _table(board: Board, column: CorruptionColumn, key: str) -> Table:
    """One row per model, one column per severity."""
    found = _by_severity(column, key)
    best = {severity: bold(key, summaries) for severity, summaries in found.items()}
    models = [model for model in board.listed if any(model in summaries for summaries in found.values())]
    rows = [
        [
            Entry(model),
            *(
                _entry(column.task, severity, key, model, summaries.get(model), model in best[severity])
                for severity, summaries in found.items()
            ),
        ]
        for model in models
    ]
    caption = f"{heading(key)} by severity: mean ± three standard deviations over the types of corruption"
    return Table.of_rows(f"corruptions-{key}", caption, ["model", *map(str, found)], rows, folded=True)


def _by_severity(column: CorruptionColumn, key: str) -> dict[int, Mapping[str, Summary]]:
    return {
        severity: summaries
        for (severity, score), summaries in sorted(column.summaries.items())
        if score == key
    }


def _entry(task: str, severity: int, key: str, model: str, ours: Summary | None, best: bool) -> Entry:
    if ours is None:
        return NOTHING
    theirs = paper_corruptions().get((task, severity, key), {}).get(model)
    return Entry(shown(ours), best, ours.mean, f"paper {shown(theirs.summary)}" if theirs else "")


def draw_severities(axes: "Axes", values: Mapping[str, Mapping[int, float]], score: str) -> None:
    """A score against severity (Figure 3 of the paper); severity 0 is the clean test set."""
    models = list(values)
    for model, means in values.items():
        color, linestyle, marker = line(model, models)
        axes.plot(
            *zip(*means.items(), strict=True), color=color, linestyle=linestyle, marker=marker, label=model
        )
    axes.set(xlabel="severity of corruption", ylabel=score)
    axes.set_xticks(sorted({severity for means in values.values() for severity in means}))
    percent_axis(axes)
    legend_above(axes)
