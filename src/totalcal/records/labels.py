"""What a row or a column of a table is called: the model, and the settings that set it apart."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from totalcal.records.store import Record

ORDER = (
    "softmax", "bnn", "edl", "np", "anp", "enp", "etp", "temperature", "mc_dropout", "ensemble",
)  # fmt: skip
"""Models and rivals as tables list them."""

Column = tuple[str, str]  # task, preset


def by_column(records: Iterable[Record]) -> dict[Column, list[Record]]:
    """The records of each task and preset, tasks by name."""
    columns: dict[Column, list[Record]] = {}
    for record in records:
        columns.setdefault((record.get("task", ""), record.get("preset", "")), []).append(record)
    return dict(sorted(columns.items()))


def column_title(task: str, preset: str, settings: Mapping[str, Any]) -> str:
    """What a column is called in full: with the settings that all of its records have alike.

    >>> column_title("fashion", "paper", {"epochs": 10})
    'fashion (paper, epochs=10)'
    """
    return f"{task} ({', '.join(filter(None, [preset, described(settings)]))})"


def common_settings(records: Sequence[Record]) -> dict[str, Any]:
    """The settings that all records have alike: they belong to the column, not to its rows.

    >>> common_settings([{"settings": {"epochs": 2, "weight_kl": 0}}, {"settings": {"epochs": 2}}])
    {'epochs': 2}
    """
    if not records:
        return {}
    first, *others = (record.get("settings", {}) for record in records)
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def labelled(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The records of one column with the row's label for `model`, which has their settings in it.

    >>> runs = [{"model": "etp", "settings": {"weight_kl": 0}}, {"model": "etp", "settings": {}}]
    >>> [record["model"] for record in labelled(runs)]
    ['etp (weight_kl=0)', 'etp']
    """
    common = common_settings(records)
    return [{**record, "model": _label(record, common), "settings": {}} for record in records]


def in_order(labels: Iterable[str]) -> list[str]:
    """Each label once: the plain net, the family as it grows, the rivals, what else there is."""
    return sorted(set(labels), key=place)


def place(label: str) -> tuple[int, str]:
    """Where a row or a model stands in a table: a key to sort by."""
    model = label.partition(" ")[0]
    return (ORDER.index(model) if model in ORDER else len(ORDER), label)


def described(settings: Mapping[str, Any]) -> str:
    """`weight_kl=0, epochs=2`."""
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def seeds_in_words(counts: Mapping[str, int]) -> str:
    """How many seeds there are, and which rows have fewer.

    >>> seeds_in_words({"etp": 5, "np": 2})
    '5 seeds (np 2)'
    """
    most = max(counts.values())
    fewer = [f"{label} {count}" for label, count in counts.items() if count < most]
    return f"{most} seed{'s' * (most > 1)}" + (f" ({', '.join(fewer)})" if fewer else "")


def _label(record: Record, common: Mapping[str, Any]) -> str:
    own = {key: value for key, value in record.get("settings", {}).items() if key not in common}
    return f"{record['model']} ({described(own)})" if own else str(record["model"])
