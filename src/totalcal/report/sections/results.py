"""Table 2 of the paper, from our records, with the paper's own figures beside ours."""

from totalcal.records import bold, show
from totalcal.records.paper import SEEDS, results
from totalcal.report.blocks import Cell, Section, Table
from totalcal.report.collect import Board
from totalcal.report.score_cells import heading, measured, score_cell, seeds_in_words

_MAIN = ("error", "nll", "ece", "ece_100", "auroc")
_MORE = (
    "brier", "joint_nll", "ece_debiased", "ece_smooth", "ece_classwise", "aurc", "excess_aurc", "augrc",
)  # fmt: skip


def results_section(board: Board) -> Section:
    """Mean ± standard deviation of every score, bold by the paper's rule."""
    tables = [
        _table(board, "results", _caption(board), measured(board, _MAIN)),
        _table(board, "more-results", "More scores", measured(board, _MORE), folded=True),
    ]
    return Section(
        "results",
        "All scores",
        "Bold lies within three standard deviations of the best: the rule behind the paper's Table 2.",
        [table for table in tables if len(table.columns) > 1],
    )


def _table(board: Board, name: str, caption: str, keys: list[str], folded: bool = False) -> Table:
    columns = [_column(board, key) for key in keys]
    rows = [[Cell(model), *(column[model] for column in columns)] for model in board.models]
    return Table(name, caption, ["model", *map(heading, keys)], rows, folded)


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
