"""From a folder of runs to files: the page, the figures as PDF, the tables as LaTeX."""

from collections.abc import Iterator
from pathlib import Path

from totalcal.records.layout import Entry, Layout, Section, as_latex
from totalcal.report.blocks import Plots, Table
from totalcal.report.collect import boards
from totalcal.report.drawing import pdf
from totalcal.report.names import slug
from totalcal.report.page import page
from totalcal.report.sections import chapter
from totalcal.whole_files import write_whole


def write_report(runs: Path, output: Path) -> Path:
    """One self-contained HTML file about all finished runs beneath a folder."""
    html = page([chapter(board) for board in boards(runs)])
    output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(output, html)
    return output


def write_figures(runs: Path, folder: Path) -> Iterator[Path]:
    """Every figure as PDF and every table as LaTeX, one file after the other."""
    chapters = [chapter(board) for board in boards(runs)]
    folder.mkdir(parents=True, exist_ok=True)
    for part in chapters:
        for block in (block for section in part.sections for block in section.blocks):
            if isinstance(block, Plots):
                yield _write_pdf(block, folder / f"{part.name}-{slug(block.name)}.pdf")
            elif isinstance(block, Table):
                yield _write_latex(block, folder / f"{part.name}-{slug(block.name)}.tex")


def layout(table: Table) -> Layout:
    """A table of the page as one that can be printed."""
    rows = [[Entry(cell.text, cell.bold) for cell in row] for row in table.rows]
    return Layout(table.columns, [Section("", rows)], [table.caption])


def _write_pdf(block: Plots, path: Path) -> Path:
    pdf(block.plots, path)
    return path


def _write_latex(block: Table, path: Path) -> Path:
    write_whole(path, as_latex(layout(block)) + "\n")
    return path
