"""Figure 3 of the paper in a file: error and ECE against the severity of corruption, a row a task."""

from pathlib import Path

from totalcal.errors import InputError, MissingExtraError
from totalcal.report.blocks import Plot, Plots
from totalcal.report.collect import Board, boards
from totalcal.report.sections.corruptions import corruptions_section


def draw_severity_figure(root: Path, path: Path) -> Path:
    """The plots of the report's section, in the format that the file's ending names: png, pdf, svg."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "drawing figures") from error
    rows = [(board, plots) for board in boards(root) if (plots := _plots(board))]
    if not rows:
        raise InputError(f"no run in {root} was judged under corruption. Do: totalcal run TASK --corruptions")
    figure = Figure(figsize=(8.4, 3.6 * len(rows)), layout="constrained")
    for place, (board, plots) in enumerate(rows):
        for side, plot in enumerate(plots):
            axes = figure.add_subplot(len(rows), len(plots), place * len(plots) + side + 1)
            plot.draw(axes)
            axes.set_title(f"{board.task} ({board.preset})", loc="left", fontsize=9)
    figure.savefig(path, dpi=150)
    return path


def _plots(board: Board) -> list[Plot]:
    section = corruptions_section(board)
    blocks = section.blocks if section else []
    return [plot for block in blocks if isinstance(block, Plots) for plot in block.plots]
