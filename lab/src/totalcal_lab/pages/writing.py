"""From a folder of runs to files: the page; figures as PDF, tables as LaTeX."""

from collections.abc import Iterator
from pathlib import Path

from totalcal.files import write_whole
from totalcal.report import Plots, Table, as_latex, page, pdf, within_limits
from totalcal_lab.pages.boards import boards, slug
from totalcal_lab.pages.sections import chapter
from totalcal_lab.records.folders import damage_in_words


def write_report(runs: Path, output: Path) -> Path:
    """One self-contained HTML file about all finished runs beneath a folder."""
    html = page(within_limits([chapter(board) for board in boards(runs)]), damage_in_words(runs))
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
                path = folder / f"{part.name}-{slug(block.name)}.pdf"
                pdf(block.plots, path)
                yield path
            elif isinstance(block, Table):
                path = folder / f"{part.name}-{slug(block.name)}.tex"
                write_whole(path, as_latex(block) + "\n")
                yield path
