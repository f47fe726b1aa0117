"""Scores as cells of a table, and how their columns and captions read."""

from totalcal.records import Summary, describe, show
from totalcal.report.blocks import Cell
from totalcal.report.collect import Board

NOTHING = Cell("–", sort="")
_STUCK = "\N{NO-BREAK SPACE}"


def heading(key: str) -> str:
    """The head of a score's column: its title, its unit, which way is better.

    >>> heading("nll"), heading("auroc")
    ('NLL\\xa0↓', 'OOD AUROC,\\xa0%\\xa0↑')
    """
    score = describe(key)
    unit = f",{_STUCK}%" if score.percent else ""
    return f"{score.title}{unit}{_STUCK}{'↓' if score.lower_is_better else '↑'}"


def score_cell(key: str, summary: Summary | None, bold: bool = False, note: str = "") -> Cell:
    """A summary over seeds, sorted by its mean; a dash where nothing was measured."""
    return NOTHING if summary is None else Cell(show(key, summary), summary.mean, note, bold)


def measured(board: Board, keys: tuple[str, ...]) -> list[str]:
    """Those scores that any model of the board has."""
    return [key for key in keys if any(key in scores for scores in board.scores.values())]


def seeds_in_words(board: Board) -> str:
    """How many seeds stand behind a mean."""
    count = len(board.seeds)
    return f"Mean ± standard deviation over {count} seeds." if count > 1 else "One seed: no spread is known."


def first_seed_in_words(board: Board) -> str:
    """Which seed the curves are of."""
    return f"Curves of seed {board.seeds[0]}."
