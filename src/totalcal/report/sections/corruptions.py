"""Under corruption: error and ECE against severity (Figure 3 of the paper), and the numbers (Table 4)."""

from collections.abc import Mapping
from functools import partial

from totalcal.records import Summary, bold, describe
from totalcal.records.corruptions import CorruptionColumn, corruption_columns, corruption_records, shown
from totalcal.records.paper import corruptions as paper_corruptions
from totalcal.report.blocks import Cell, Plot, Plots, Section, Table
from totalcal.report.collect import Board
from totalcal.report.figures import lines
from totalcal.report.score_cells import NOTHING, heading

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
        "How does it bear corruption?",
        "A model that knows when its inputs go bad grows less sure as it errs more: its ECE stays low.",
        [Plots("corruptions", caption, plots), *(_table(column, key) for key in _PRINTED)],
    )


def _column(board: Board) -> CorruptionColumn | None:
    if not any(run.folder.corruptions_file.exists() for run in board.runs):
        return None
    columns = corruption_columns(corruption_records(board.runs[0].folder.path.parent))
    return next(column for column in columns if (column.task, column.preset) == (board.task, board.preset))


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
        partial(lines.draw_severities, values=curves, score=title),
        size=(4.2, 3.6),
    )


def _curves(board: Board, column: CorruptionColumn, key: str) -> dict[str, dict[int, float]]:
    """Model → severity → mean; the clean test set is severity 0."""
    curves: dict[str, dict[int, float]] = {}
    for severity, summaries in _by_severity(column, key).items():
        for model, summary in summaries.items():
            curves.setdefault(model, _clean(board, model, key))[severity] = summary.mean
    return curves


def _clean(board: Board, model: str, key: str) -> dict[int, float]:
    scores = board.scores.get(model, {})
    return {0: scores[key].mean} if key in scores else {}


def _table(column: CorruptionColumn, key: str) -> Table:
    """A row a model, a column a severity."""
    found = _by_severity(column, key)
    best = {severity: bold(key, summaries) for severity, summaries in found.items()}
    models = dict.fromkeys(model for summaries in found.values() for model in summaries)
    rows = [
        [
            Cell(model),
            *(
                _cell(column.task, severity, key, model, summaries.get(model), model in best[severity])
                for severity, summaries in found.items()
            ),
        ]
        for model in models
    ]
    caption = f"{heading(key)} by severity: mean ± three standard deviations over the types of corruption"
    return Table(f"corruptions-{key}", caption, ["model", *map(str, found)], rows, folded=True)


def _by_severity(column: CorruptionColumn, key: str) -> dict[int, Mapping[str, Summary]]:
    return {
        severity: summaries
        for (severity, score), summaries in sorted(column.summaries.items())
        if score == key
    }


def _cell(task: str, severity: int, key: str, model: str, ours: Summary | None, best: bool) -> Cell:
    if ours is None:
        return NOTHING
    theirs = paper_corruptions().get((task, severity, key), {}).get(model)
    return Cell(shown(ours), ours.mean, f"paper {shown(theirs.summary)}" if theirs else "", best)
