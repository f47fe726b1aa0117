"""What the truth study found: a table for each task, what became of the paper's claims, and a figure."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from totalcal.report import Entry, Group, Summary, Table, as_text, show, summarise
from totalcal_lab.backbones.baselines import BASELINES
from totalcal_lab.records.bold import bold
from totalcal_lab.records.formats import NOTHING
from totalcal_lab.studies.truth import PREDICTORS, Measurement, StudyPlan, claims

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = {
    "kl": "KL to f_true",
    "risk_correlation": "ρ(data term, Bayes risk)",
    "auroc": "AUROC by entropy",
    "auroc_mutual_information": "by mutual inf.",
    "auroc_familiarity": "by familiarity",
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


def to_json(found: Sequence[Measurement], plan: StudyPlan) -> str:
    """Every measurement and the claims; what does not exist is null."""
    content = {
        "plan": plan._asdict(),
        "measurements": [row._asdict() for row in found],
        "claims": [claim.to_dict() for claim in claims(found, plan)],
    }
    return json.dumps(_without_nan(content), allow_nan=False)


def to_text(found: Sequence[Measurement], plan: StudyPlan) -> str:
    """The tables as they are printed."""
    return as_text(_tasks_table(found, plan)) + "\n\n" + as_text(_claims_table(found, plan))


def draw_truth(found: Sequence[Measurement], plan: StudyPlan, path: Path) -> None:
    """Save the figure; the ending of the path chooses the format."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained", facecolor="white")
    (fit, reducible), (irreducible, distance) = figure.subplots(2, 2)
    rows = [row for row in found if row.task == plan.sweep_task]
    _over_sizes(fit, rows, plan, lambda row: row.kl, "KL to f_true")
    _over_sizes(reducible, rows, plan, lambda row: row.reducible, "reducible")
    _over_sizes(irreducible, rows, plan, lambda row: row.irreducible, "irreducible")
    _over_distance(distance, [row for row in rows if row.examples == max(plan.sweep)])
    handles, labels = fit.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(f"{plan.sweep_task}: {plan.seeds} seeds, mean and range")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def _tasks_table(found: Sequence[Measurement], plan: StudyPlan) -> Table:
    groups = []
    for task in plan.tasks:
        ceiling = next(row.risk_ceiling for row in found if row.task == task)
        title = f"{task}: N = {plan.examples}, {plan.seeds} seeds; f_true itself reaches ρ = {ceiling:.3f}"
        cells = summaries(found, task, plan.examples)
        best = {column: bold(_score(column), cells[column]) for column in COLUMNS}
        rows = [
            [Entry(model), *(_cell(name, cells[name][model], model in best[name]) for name in COLUMNS)]
            for model in cells["kl"]
        ]
        groups.append(Group(title, rows))
    note = "* within three standard deviations of the best. Points where p(x) < ε are the positive class."
    return Table(["", *COLUMNS.values()], groups, [note])


def _claims_table(found: Sequence[Measurement], plan: StudyPlan) -> Table:
    rows = [
        [
            Entry(claim.model),
            _times(claim.reducible_ratio, claim.reducible_shrinks),
            _times(claim.irreducible_ratio, claim.irreducible_stays),
            _times(claim.distance_ratio, claim.variance_grows),
            _cell("risk_correlation", claim.distance_correlation, starred=False),
        ]
        for claim in claims(found, plan)
    ]
    header = ["", "reducible: shrinks?", "irreducible: stays?", "far : near: grows?", "ρ(variance, distance)"]
    sizes = f"from N = {min(plan.sweep)} to {max(plan.sweep)}"
    title = f"{plan.sweep_task}: the claims of sections 3 and 4, {sizes}"
    return Table(header, [Group(title, rows)])


def _score(column: str) -> str:
    return "auroc" if column.startswith("auroc") else column


def _cell(column: str, summary: Summary, starred: bool) -> Entry:
    if math.isnan(summary.mean):
        return NOTHING
    return Entry(show(_score(column), summary, DIGITS.get(column)), starred)


def _times(ratio: float, holds: bool | None) -> Entry:
    return NOTHING if holds is None else Entry(f"×{ratio:.2f} {'yes' if holds else 'no'}")


def _without_nan(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _without_nan(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_without_nan(inner) for inner in value]
    return value


def _over_sizes(
    axes: "Axes",
    rows: Sequence[Measurement],
    plan: StudyPlan,
    value: Callable[[Measurement], float],
    title: str,
) -> None:
    """A line for each model that has this term, with the range over seeds."""
    sizes = sorted(plan.sweep)
    for index, model in enumerate(PREDICTORS):
        by_size = [
            [value(row) for row in rows if (row.model, row.examples) == (model, size)] for size in sizes
        ]
        if not np.any(by_size):
            continue
        axes.plot(
            sizes,
            np.mean(by_size, axis=1),
            marker="o",
            markersize=3,
            label=model,
            color=f"C{index}",
            linestyle=_dash(index),
        )
        axes.fill_between(
            sizes, np.min(by_size, axis=1), np.max(by_size, axis=1), color=f"C{index}", alpha=0.1
        )
    axes.set(xscale="log", yscale="log", xlabel="N", title=title)


def _over_distance(axes: "Axes", rows: Sequence[Measurement]) -> None:
    for index, model in enumerate(PREDICTORS):
        curve = np.mean(
            [row.variance_by_distance for row in rows if row.model == model], axis=0
        )  # [slices, 2]
        if curve[:, 1].any():
            axes.plot(
                curve[:, 0], curve[:, 1], marker="o", markersize=3, color=f"C{index}", linestyle=_dash(index)
            )
    axes.set(
        yscale="log",
        xlabel="distance from the training data",
        title="reducible + irreducible, at the largest N",
    )


def _dash(index: int) -> str:
    """Baselines are dashed."""
    return "--" if PREDICTORS[index] in BASELINES else "-"
