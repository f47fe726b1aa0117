"""What a model costs: the time of an epoch, relative to the plain net on the same task."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple

from totalcal.records.folders import RunFolder
from totalcal.records.labels import Column, in_order
from totalcal.records.layout import Entry, Layout, Section

BASELINE = "softmax"


class Cost(NamedTuple):
    """The median time of an epoch; `ratio` is None where the plain net was not run."""

    seconds: float
    ratio: float | None
    epochs: int


def costs(folders: Iterable[RunFolder]) -> dict[Column, dict[str, Cost]]:
    """For each task and preset the cost of every model that was trained there with the preset's settings."""
    seconds: dict[Column, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for folder in folders:
        config = folder.config
        seconds[config["task"], config["preset"]][config["model"]] += folder.timing.seconds_by_epoch
    return {column: _relative(models) for column, models in sorted(seconds.items())}


def cost_layout(table: Mapping[Column, Mapping[str, Cost]]) -> Layout:
    """A row a model, a column a task."""
    labels = in_order(label for models in table.values() for label in models)
    rows = [
        [Entry(label), *(Entry(_shown(models.get(label))) for models in table.values())] for label in labels
    ]
    header = ["", *(f"{task} ({preset})" for task, preset in table)]
    note = f"Seconds an epoch (median over epochs and seeds), and that relative to {BASELINE}."
    return Layout(header, [Section("", rows)], [note])


def _relative(models: Mapping[str, list[float]]) -> dict[str, Cost]:
    typical = {model: median(seconds) for model, seconds in models.items() if seconds}
    plain = typical.get(BASELINE)
    return {
        model: Cost(value, value / plain if plain else None, len(models[model]))
        for model, value in typical.items()
    }


def _shown(cost: Cost | None) -> str:
    if cost is None:
        return ""
    ratio = "" if cost.ratio is None else f" ({cost.ratio:.2f}×)"
    return f"{cost.seconds:.3g} s{ratio}"
