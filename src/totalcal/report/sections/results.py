"""Table 2 of the paper, from our records, with the paper's own figures beside ours."""

from totalcal.records import bold, show
from totalcal.records.paper import SEEDS, results
from totalcal.report.blocks import Cell, Section, Table
from totalcal.report.collect import Board
from totalcal.report.score_cells import heading, measured, score_cell, seeds_in_words

_KEYS = (
    "error",
    "nll",
    "ece",
    "ece_100",
    "auroc",
    "brier",
    "ece_debiased",
    "ece_smooth",
    "ece_classwise",
    "aurc",
)


def results_section(board: Board) -> Section:
    """Mean ± standard deviation of every score, bold by the paper's rule."""
    keys = measured(board, _KEYS)
    columns = [_column(board, key) for key in keys]
    rows = [[Cell(model), *(column[model] for column in columns)] for model in board.models]
    lead = (
        "Bold is what lies within three standard deviations of the best, the rule behind the paper's Table 2."
    )
    table = Table("results", _caption(board), ["model", *map(heading, keys)], rows)
    return Section("results", "All scores", lead, [table])


def _column(board: Board, key: str) -> dict[str, Cell]:
    found = {model: scores[key] for model, scores in board.scores.items() if key in scores}
    best = bold(key, found)
    return {
        model: score_cell(key, found.get(model), model in best, _paper(board.task, key, model))
        for model in board.models
    }


def _paper(task: str, key: str, model: str) -> str:
    cell = results().get((task, key), {}).get(model)
    return f"paper {show(key, cell.summary)}" if cell else ""


def _caption(board: Board) -> str:
    beside = any(task == board.task for task, _ in results())
    paper = f" Beneath, in small type: the paper's Table 2, over {SEEDS} seeds." if beside else ""
    return f"{seeds_in_words(board)}{paper}"
