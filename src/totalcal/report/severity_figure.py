"""Figure 3 of the paper in a file: error and ECE against the severity of corruption, a row a task."""

from pathlib import Path
from typing import TYPE_CHECKING

from totalcal.errors import MissingExtraError
from totalcal.records.corruptions import CorruptionColumn, corruption_columns, corruption_records
from totalcal.records.labels import in_order
from totalcal.records.scoreboard import describe
from totalcal.report.palette import line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SCORES = ("error", "ece")


def draw_severity_figure(root: Path, path: Path) -> Path:
    """Written in the format that the file's ending names: png, pdf, svg."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "drawing figures") from error
    columns = corruption_columns(corruption_records(root))
    figure = Figure(figsize=(8, 3 * len(columns) + 0.6), layout="constrained")
    grid = figure.subplots(len(columns), len(_SCORES), squeeze=False)
    for row, column in zip(grid, columns, strict=True):
        for axes, score in zip(row, _SCORES, strict=True):
            _draw(axes, column, score)
    handles = {str(drawn.get_label()): drawn for axes in grid.flat for drawn in axes.get_lines()}
    models = in_order(handles)
    figure.legend(
        [handles[model] for model in models], models, loc="outside lower center", ncols=5, fontsize=8
    )
    figure.savefig(path, dpi=150)
    return path


def _draw(axes: "Axes", column: CorruptionColumn, score: str) -> None:
    """A line a model: the mean over types at each severity."""
    from matplotlib.ticker import PercentFormatter

    severities = sorted({severity for severity, _ in column.summaries})
    models = in_order(label for severity in severities for label in column.summaries[severity, score])
    for model in models:
        points = [
            (severity, summaries[model].mean)
            for severity in severities
            if model in (summaries := column.summaries[severity, score])
        ]
        colour, style, marker = line(model, models)
        axes.plot(*zip(*points, strict=True), color=colour, linestyle=style, marker=marker, label=model)
    axes.set(xlabel="severity", ylabel=describe(score).title, xticks=severities)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    axes.set_title(f"{column.title}, {column.types} types", loc="left", fontsize=9)
