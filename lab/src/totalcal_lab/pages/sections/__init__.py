"""The sections of a chapter, in reading order; a section appears only when its data exist."""

from collections.abc import Callable

from totalcal.report import Chapter, Section
from totalcal_lab.pages.boards import Board
from totalcal_lab.pages.sections.calibration import (
    decomposition_section,
    examples_section,
    reliability_section,
    selective_section,
)
from totalcal_lab.pages.sections.corruptions import corruptions_section
from totalcal_lab.pages.sections.memory import memory_section
from totalcal_lab.pages.sections.ood import domain_section, familiarity_section
from totalcal_lab.pages.sections.provenance import provenance_section
from totalcal_lab.pages.sections.scores import cost_section, panel_section, results_section, verdict_section

SECTIONS: tuple[Callable[[Board], Section | None], ...] = (
    verdict_section,
    results_section,
    panel_section,
    reliability_section,
    domain_section,
    familiarity_section,
    decomposition_section,
    selective_section,
    corruptions_section,
    cost_section,
    examples_section,
    memory_section,
    provenance_section,
)


def chapter(board: Board) -> Chapter:
    """Everything there is to say about one task under one preset."""
    found = (make(board) for make in SECTIONS)
    return Chapter(
        board.name,
        board.task,
        board.preset,
        _badge(board),
        [section for section in found if section is not None],
    )


def _badge(board: Board) -> str:
    """What a reader must know before any number: the preset, and whether it is the paper's."""
    reduced = ", reduced: not the paper's epochs and sizes" if board.is_reduced else ""
    settings = f"; {board.settings}" if board.settings else ""
    return f"{board.preset} preset{reduced}{settings}"
