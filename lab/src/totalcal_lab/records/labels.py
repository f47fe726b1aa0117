"""What rows and columns of records are called in tables, and in which order they stand; summaries over seeds.

A column is one task with one preset; runs of other settings are other rows of it.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from totalcal.registry import MODEL_NAMES
from totalcal.report import Record, Summary, is_score, summarise

BASELINE_NAMES = ("temperature", "mc_dropout", "ensemble")
"""What plain nets are made into, for comparison."""

ORDER = (*MODEL_NAMES, *BASELINE_NAMES)
"""Models and baselines as tables list them."""

Column = tuple[str, str]  # task, preset


def by_column(records: Iterable[Record]) -> dict[Column, list[Record]]:
    """The records of each task and preset, tasks by name."""
    columns: dict[Column, list[Record]] = {}
    for record in records:
        columns.setdefault((record.get("task", ""), record.get("preset", "")), []).append(record)
    return dict(sorted(columns.items()))


def column_title(task: str, preset: str, settings: Mapping[str, Any]) -> str:
    """What a column is called in full: with the settings that all of its records share.

    >>> column_title("fashion", "paper", {"epochs": 10})
    'fashion (paper, epochs=10)'
    """
    return f"{task} ({', '.join(filter(None, [preset, settings_in_words(settings)]))})"


def common_settings(records: Sequence[Record]) -> dict[str, Any]:
    """The settings that all records share: they belong to the column, not to its rows.

    >>> common_settings([{"settings": {"epochs": 2, "weight_kl_scale": 0}}, {"settings": {"epochs": 2}}])
    {'epochs': 2}
    """
    if not records:
        return {}
    first, *others = (record.get("settings", {}) for record in records)
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def with_row_labels(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The records of one column with the row's label for `model`, which has their settings in it.

    >>> runs = [{"model": "etp", "settings": {"weight_kl_scale": 0}}, {"model": "etp", "settings": {}}]
    >>> [record["model"] for record in with_row_labels(runs)]
    ['etp (weight_kl_scale=0)', 'etp']
    """
    common = common_settings(records)
    return [{**record, "model": _label(record, common), "settings": {}} for record in records]


def in_order(labels: Iterable[str]) -> list[str]:
    """Each label once: the plain net, the family as it grows, the baselines, what else there is."""
    return sorted(set(labels), key=place)


def place(label: str) -> tuple[int, str]:
    """Where a row or a model stands in a table: a key to sort by."""
    model = label.partition(" ")[0]
    return (ORDER.index(model) if model in ORDER else len(ORDER), label)


def settings_in_words(settings: Mapping[str, Any]) -> str:
    """Settings as a table shows them.

    >>> settings_in_words({"weight_kl_scale": 0, "epochs": 2})
    'weight_kl_scale=0, epochs=2'
    """
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def seeds_in_words(counts: Mapping[str, int]) -> str:
    """How many seeds there are, and which rows have fewer.

    >>> seeds_in_words({"etp": 5, "anp": 2})
    '5 seeds (anp 2)'
    """
    most = max(counts.values())
    fewer = [f"{label} {count}" for label, count in counts.items() if count < most]
    return f"{most} seed{'s' * (most > 1)}" + (f" ({listed(fewer)})" if fewer else "")


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names as a person reads them: all, or the first and how many more.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


IDENTITY = ("task", "preset", "model", "seed")


def latest(records: Iterable[Record], identity: tuple[str, ...] = IDENTITY) -> list[Record]:
    """One record for each identity: the last that was written, because a rerun appends."""
    return list({tuple(record[key] for key in identity): record for record in records}.values())


def aggregate(
    records: Iterable[Record], by: Sequence[str] = ("task", "preset", "model")
) -> dict[tuple[str, ...], dict[str, Summary]]:
    """Row, named by the values of `by` → score → summary over seeds; `majority_error` comes along.

    Runs of other settings are other rows: their model is called `etp (weight_kl_scale=0)`.
    """
    labelled = [record for runs in by_column(records).values() for record in with_row_labels(runs)]
    values: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in latest(labelled, (*by, "seed")):
        row = values[tuple(record[key] for key in by)]
        for key, value in record.items():
            if is_score(key) or key == "majority_error":
                row[key].append(float(value))
    return {row: {key: summarise(found) for key, found in scores.items()} for row, scores in values.items()}


class Titled(Protocol):
    """A column of a table, with the settings that its records share."""

    @property
    def task(self) -> str: ...
    @property
    def preset(self) -> str: ...
    @property
    def settings(self) -> dict[str, Any]: ...


def flat_line(column: Titled, score: str, model: str, summary: Summary, **place: int) -> dict[str, Any]:
    """One entry of a table for other programs. JSON knows no NaN, which the deviation of one seed is."""
    mean, std = (value if math.isfinite(value) else None for value in summary[:2])
    found = {"task": column.task, "preset": column.preset, "settings": column.settings, **place}
    return {**found, "score": score, "model": model, "mean": mean, "std": std}


def _label(record: Record, common: Mapping[str, Any]) -> str:
    own = {key: value for key, value in record.get("settings", {}).items() if key not in common}
    return f"{record['model']} ({settings_in_words(own)})" if own else str(record["model"])
