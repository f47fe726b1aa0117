"""Scores as cells of a table, and how their columns and captions read."""

from totalcal.records import Summary, describe, labels, show
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
    counts = {model: len(board.of(model)) for model in board.models}
    if max(counts.values()) == 1:
        return "One seed: no spread is known."
    return f"Mean ± standard deviation over {labels.seeds_in_words(counts)}."


def first_seeds_in_words(board: Board) -> str:
    """Which seeds the curves are of: the first of each model."""
    by_seed: dict[int, list[str]] = {}
    for model in board.models:
        by_seed.setdefault(board.of(model)[0].seed, []).append(model)
    if len(by_seed) == 1:
        return f"Curves of seed {next(iter(by_seed))}."
    shown = "; ".join(f"{seed} of {', '.join(models)}" for seed, models in sorted(by_seed.items()))
    return f"Curves of each model's first seed: {shown}."
