"""What a model costs: time per epoch, relative to the plain net."""

from totalcal.records.cost import BASELINE, costs
from totalcal.report.blocks import Cell, Section, Table
from totalcal.report.collect import Board
from totalcal.report.score_cells import NOTHING


def cost_section(board: Board) -> Section | None:
    """Median seconds per epoch; None where nothing was trained."""
    found = costs(run.folder for run in board.runs)[board.task, board.preset]
    if not found:
        return None
    rows = [
        [Cell(model), Cell(f"{cost.seconds:.3g}", cost.seconds), _ratio(cost.ratio)]
        for model, cost in found.items()
    ]
    caption = "Median over epochs and seeds. Runs that shared a machine's cores have slowed each other down."
    return Section(
        "cost",
        "What does it cost?",
        "The limit is the plain net on the same backbone. The paper's ETP took 1.32 times as long as BNN.",
        [Table("cost", caption, ["model", "seconds per epoch", f"relative to {BASELINE}"], rows)],
    )


def _ratio(ratio: float | None) -> Cell:
    return NOTHING if ratio is None else Cell(f"{ratio:.2f}", ratio)
