"""The OOD panel: how well each foreign set is told apart, and the worst of them."""

from totalcal.records import Summary, bold
from totalcal.report.blocks import Cell, Section, Table
from totalcal.report.collect import Board
from totalcal.report.score_cells import measured, score_cell, seeds_in_words


def panel_section(board: Board) -> Section | None:
    """AUROC on each member of the panel; None where no foreign set was shown to the models."""
    members = _members(board)
    if not members:
        return None
    areas = [*(f"auroc/{member}" for member in members), *_summaries(board, members)]
    alarms = measured(board, tuple(f"fpr95/{member}" for member in members))
    caption = f"AUROC in %, out-of-domain is positive. {seeds_in_words(board)} {_worst(board, members)}"
    tables = [_table(board, "panel", caption, areas)]
    if alarms:
        rarer = "False alarms in % when 95 % of the foreign inputs are found"
        tables.append(_table(board, "panel-alarms", rarer, alarms, folded=True))
    return Section(
        "panel",
        "Foreign inputs, set by set",
        "A model that tells one foreign set apart may fail on the next, so the worst one counts.",
        tables,
    )


def _table(board: Board, name: str, caption: str, keys: list[str], folded: bool = False) -> Table:
    best = {key: bold(key, _found(board, key)) for key in keys}
    rows = [
        [Cell(model), *(score_cell(key, scores.get(key), model in best[key]) for key in keys)]
        for model, scores in board.scores.items()
    ]
    return Table(name, caption, ["model", *map(_heading, keys)], rows, folded)


def _members(board: Board) -> list[str]:
    keys = dict.fromkeys(key for scores in board.scores.values() for key in scores)
    return [key.partition("/")[2] for key in keys if key.startswith("auroc/")]


def _summaries(board: Board, members: list[str]) -> list[str]:
    return measured(board, ("auroc_mean", "auroc_worst")) if len(members) > 1 else []


def _found(board: Board, key: str) -> dict[str, Summary]:
    return {model: scores[key] for model, scores in board.scores.items() if key in scores}


def _heading(key: str) -> str:
    return {"auroc_mean": "mean", "auroc_worst": "worst"}.get(key, key.partition("/")[2])


def _worst(board: Board, members: list[str]) -> str:
    """Which member is hardest over all models."""
    if len(members) < 2:
        return ""
    means = {
        member: sum(summary.mean for summary in found.values()) / len(found)
        for member in members
        if (found := _found(board, f"auroc/{member}"))
    }
    return f"Hardest for these models: {min(means, key=means.__getitem__)}."
