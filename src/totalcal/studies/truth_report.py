"""What the truth study found, over seeds: a table for each task, and what became of the paper's claims."""

import json
import math
from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.table import Table

from totalcal.records import Summary, bold, show, summarise
from totalcal.studies.truth import Measurement, Plan
from totalcal.studies.truth_claims import claims

COLUMNS = {
    "kl": "KL to f_true",
    "risk_correlation": "ρ(data term, Bayes risk)",
    "auroc": "AUROC by entropy",
    "auroc_mutual_information": "AUROC by mutual inf.",
}
DIGITS = {"kl": 4, "risk_correlation": 3}


def summaries(found: Sequence[Measurement], task: str, examples: int) -> dict[str, dict[str, Summary]]:
    """Column → model → summary over seeds."""
    rows = [row for row in found if (row.task, row.examples) == (task, examples)]
    models = dict.fromkeys(row.model for row in rows)
    return {
        column: {
            model: summarise(getattr(row, column) for row in rows if row.model == model) for model in models
        }
        for column in COLUMNS
    }


def to_json(found: Sequence[Measurement], plan: Plan) -> str:
    """Every measurement and the claims; what does not exist is null."""
    content = {
        "plan": plan._asdict(),
        "measurements": [row._asdict() for row in found],
        "claims": [claim.to_dict() for claim in claims(found, plan)],
    }
    return json.dumps(_without_nan(content), allow_nan=False)


def to_text(found: Sequence[Measurement], plan: Plan) -> str:
    """The tables as they are printed."""
    paper = StringIO()
    console = Console(file=paper, width=110, color_system=None)
    for task in plan.tasks:
        console.print(_task_table(found, plan, task))
    console.print(
        "* within three standard deviations of the best. Points where p(x) < ε are the positive class.\n"
    )
    console.print(_claims_table(found, plan))
    return paper.getvalue().rstrip()


def _task_table(found: Sequence[Measurement], plan: Plan, task: str) -> Table:
    ceiling = next(row.risk_ceiling for row in found if row.task == task)
    table = Table(
        title=f"{task}: N = {plan.examples}, {plan.seeds} seeds; f_true itself reaches ρ = {ceiling:.3f}"
    )
    table.add_column("model")
    cells = summaries(found, task, plan.examples)
    for title in COLUMNS.values():
        table.add_column(title, justify="right")
    best = {column: bold(_score(column), cells[column]) for column in COLUMNS}
    for model in cells["kl"]:
        table.add_row(
            model, *(_cell(column, cells[column][model], model in best[column]) for column in COLUMNS)
        )
    return table


def _claims_table(found: Sequence[Measurement], plan: Plan) -> Table:
    smallest, largest = min(plan.sweep), max(plan.sweep)
    table = Table(
        title=f"{plan.sweep_task}: the claims of sections 3 and 4, from N = {smallest} to {largest}"
    )
    table.add_column("model")
    for column in (
        "reducible",
        "shrinks",
        "irreducible",
        "stays",
        "far : near",
        "grows",
        "ρ(variance, distance)",
    ):
        table.add_column(column, justify="right")
    for claim in claims(found, plan):
        table.add_row(
            claim.model,
            _times(claim.reducible_ratio),
            _yes(claim.reducible_shrinks),
            _times(claim.irreducible_ratio),
            _yes(claim.irreducible_stays),
            _times(claim.distance_ratio),
            _yes(claim.variance_grows),
            _cell("risk_correlation", claim.distance_correlation, starred=False),
        )
    return table


def _score(column: str) -> str:
    return "auroc" if column.startswith("auroc") else column


def _cell(column: str, summary: Summary, starred: bool) -> str:
    if math.isnan(summary.mean):
        return "–"
    return ("* " if starred else "") + show(_score(column), summary, DIGITS.get(column))


def _times(ratio: float) -> str:
    return "–" if math.isnan(ratio) else f"×{ratio:.2f}"


def _yes(holds: bool | None) -> str:
    return "–" if holds is None else ("yes" if holds else "no")


def _without_nan(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _without_nan(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_without_nan(inner) for inner in value]
    return value
