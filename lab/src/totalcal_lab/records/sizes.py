"""The terms of the variance over the size of the training set, from records."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from totalcal.report import Entry, Group, Record, Table
from totalcal_lab.records.formats import NOTHING
from totalcal_lab.records.labels import column_title, in_order

TERMS = ("reducible", "irreducible", "data")


def sizes_table(records: Sequence[Record]) -> Table:
    """One group per task: each term at the smallest and the largest size, and the power of N it goes with."""
    groups = []
    for task in dict.fromkeys(record["task"] for record in records):
        mine = [record for record in records if record["task"] == task]
        sizes = sorted({record["examples"] for record in mine})
        rows = [
            [
                Entry(model),
                *(_entry([line for line in mine if line["model"] == model], term) for term in TERMS),
            ]
            for model in in_order(record["model"] for record in mine)
        ]
        title = column_title(task, f"{sizes[0]:,} → {sizes[-1]:,} rows", mine[0]["settings"])
        groups.append(Group(title, rows))
    note = "Mean over test rows, first → last size; in brackets the slope of log term over log N: 1/N is −1."
    return Table(["", *TERMS], groups, [note])


def by_size(lines: Sequence[Record], term: str) -> tuple[list[int], list[float]]:
    """The sizes, and the mean over seeds at each."""
    sizes = sorted({line["examples"] for line in lines})
    means = [float(np.mean([line[term] for line in lines if line["examples"] == size])) for size in sizes]
    return sizes, means


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Of log value over log size, by least squares.

    >>> round(slope([10, 100, 1000], [1.0, 0.1, 0.01]), 6)
    -1.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _entry(lines: Sequence[Record], term: str) -> Entry:
    sizes, means = by_size(lines, term)
    if not min(means) > 0:
        return NOTHING
    power = f" ({slope(sizes, means):+.2f})".replace("-", "−") if len(sizes) > 1 else ""
    return Entry(f"{means[0]:.2g} → {means[-1]:.2g}{power}", sort=means[-1])


def draw_sizes(records: Sequence[Record], path: Path) -> None:
    """Save the figure: the reducible and the irreducible term over N, a column of panels per task."""
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(record["task"] for record in records))
    models = in_order(record["model"] for record in records)
    figure = Figure(figsize=(4 * len(tasks), 6.5), layout="constrained", facecolor="white")
    grid = figure.subplots(2, len(tasks), squeeze=False)
    for row, term in enumerate(TERMS[:2]):
        for axes, task in zip(grid[row], tasks, strict=True):
            for index, model in enumerate(models):
                mine = [line for line in records if (line["task"], line["model"]) == (task, model)]
                sizes, means = by_size(mine, term)
                if means and min(means) > 0:
                    style = "k--" if model == "posterior" else f"C{index}-"
                    axes.plot(sizes, means, style, marker="o", ms=3, label=model)
            axes.set(xscale="log", yscale="log", xlabel="training rows", title=f"{task}: {term}")
    handles = {
        label: handle
        for axes in grid.ravel()
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
