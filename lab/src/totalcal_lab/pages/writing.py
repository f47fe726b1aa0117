"""From a folder of runs to files: the page; figures as PDF, tables as LaTeX."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from totalcal.files import write_whole
from totalcal.report import Block, Chapter, Plots, Prose, Table, page
from totalcal_lab.pages.boards import boards, slug
from totalcal_lab.pages.drawing import pdf
from totalcal_lab.pages.sections import chapter
from totalcal_lab.records.folders import damage_in_words
from totalcal_lab.records.formats import as_latex

MOST_PLOTS, FEWEST_PLOTS = 48, 4  # of a page, and of a chapter
_LEFT_OUT = "Left out of so large a page. To see the figures: totalcal-lab figures RUNS -o figs"


def write_report(runs: Path, output: Path) -> Path:
    """One self-contained HTML file about all finished runs beneath a folder."""
    html = page(_within_limits([chapter(board) for board in boards(runs)]), damage_in_words(runs))
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


def _within_limits(chapters: Sequence[Chapter]) -> list[Chapter]:
    """Chapters whose figures fit a page that opens at once; the page says how to get the others."""
    share = max(FEWEST_PLOTS, MOST_PLOTS // len(chapters))
    return [_with_plots(part, share) for part in chapters]


def _with_plots(part: Chapter, most: int) -> Chapter:
    sections = []
    for section in part.sections:
        blocks: list[Block] = []
        for block in section.blocks:
            if isinstance(block, Plots) and len(block.plots) > most:
                blocks.append(Prose(_LEFT_OUT))
            else:
                most -= len(block.plots) if isinstance(block, Plots) else 0
                blocks.append(block)
        sections.append(replace(section, blocks=blocks))
    return replace(part, sections=sections)
