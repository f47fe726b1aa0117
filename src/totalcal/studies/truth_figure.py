"""The figure of the truth study: misfit and the terms of variance over N, and variance over distance."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from totalcal.errors import MissingExtraError
from totalcal.rivals import RIVALS
from totalcal.studies.truth import Measurement, Plan
from totalcal.studies.truth_training import PREDICTORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_truth(found: Sequence[Measurement], plan: Plan, path: Path) -> None:
    """Save the figure; the ending of the path chooses the format."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "the figure of the truth study") from error
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


def _over_sizes(
    axes: "Axes", rows: Sequence[Measurement], plan: Plan, value: Callable[[Measurement], float], title: str
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
    """Rivals are dashed."""
    return "--" if PREDICTORS[index] in RIVALS else "-"
