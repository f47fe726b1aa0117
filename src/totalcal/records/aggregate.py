"""Over seeds: mean, sample standard deviation, how many."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from totalcal.errors import InputError
from totalcal.records.labels import by_column, describe, is_score, labelled
from totalcal.records.lines import Record
from totalcal.records.store import latest


class Summary(NamedTuple):
    """What the seeds of one row say; the standard deviation of one seed is NaN, not 0."""

    mean: float
    std: float
    n: int


def summarise(values: Iterable[float]) -> Summary:
    """Mean, sample standard deviation (n − 1) and n.

    >>> summarise([1.0, 2.0, 3.0])
    Summary(mean=2.0, std=1.0, n=3)
    """
    array = np.fromiter(values, dtype=np.float64)
    if not array.size:
        raise InputError("there is nothing to summarise: no seed has this score.")
    with np.errstate(invalid="ignore"):  # the spread around an infinite mean is NaN
        std = float(array.std(ddof=1)) if array.size > 1 else np.nan
    return Summary(float(array.mean()), std, array.size)


def aggregate(
    records: Iterable[Record], by: Sequence[str] = ("task", "preset", "model")
) -> dict[tuple[str, ...], dict[str, Summary]]:
    """Row, named by the values of `by` → score → summary over seeds; `majority_error` comes along.

    Runs of other settings are other rows: their model is called `etp (weight_kl_scale=0)`.
    """
    values: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in latest(_labelled_by_column(records), (*by, "seed")):
        row = values[tuple(record[key] for key in by)]
        for key, value in record.items():
            if is_score(key) or key == "majority_error":
                row[key].append(float(value))
    return {row: {key: summarise(found) for key, found in scores.items()} for row, scores in values.items()}


def by_seed(records: Iterable[Record], score: str) -> dict[str, dict[int, float]]:
    """Model → seed → value of one score, of the records of one task and preset: for a paired comparison."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for record in labelled(list(records)):
        if score in record:
            found[record["model"]][record["seed"]] = float(record[score])
    return dict(found)


def _labelled_by_column(records: Iterable[Record]) -> list[dict[str, Any]]:
    """With the row's label for `model`, in the order given within each task and preset."""
    return [record for runs in by_column(records).values() for record in labelled(runs)]


def show(key: str, summary: Summary, digits: int | None = None) -> str:
    """A summary as people print it: percent with one digit, or two digits, if not told otherwise.

    >>> show("error", Summary(0.0792, 0.0011, 10)), show("nll", Summary(0.2901, 0.0034, 10))
    ('7.9 ± 0.1', '0.29 ± 0.00')
    >>> show("nll", Summary(0.2901, np.nan, 1))
    '0.29'
    """
    scale, usual = (100, 1) if describe(key).percent else (1, 2)
    digits = usual if digits is None else digits
    spread = "" if np.isnan(summary.std) else f" ± {scale * summary.std:.{digits}f}"
    return f"{scale * summary.mean:.{digits}f}{spread}"
