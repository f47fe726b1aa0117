"""Records on disk: one JSON object a line, appended and never changed.

A record is flat. It says what ran (task, preset, model, seed, epochs) and what came out, as fractions:
`{"task": "fashion", "preset": "paper", "model": "etp", "seed": 0, "epochs": 50, "error": 0.079, "auroc": 0.9,
"auroc/mnist": 0.9, …}`. A score that is not finite is written as null and read as NaN.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from totalcal.errors import InputError
from totalcal.records.lines import append_line
from totalcal.records.scoreboard import is_score

Record = Mapping[str, Any]

REQUIRED = ("task", "preset", "model", "seed", "epochs")
IDENTITY = ("task", "preset", "model", "seed")


def append(path: str | os.PathLike[str], record: Record) -> None:
    """Add a record to a file, which is made if need be; safe for several processes at once."""
    from filelock import FileLock

    line = finite(record)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(target.name + ".lock")):
        append_line(target, line)


def read(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The records of a file in order. A line torn by a killed writer is left out, a bad one is an error."""
    lines = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    records = []
    for number, line in enumerate(lines, start=1):
        if line.strip() and (record := _decode(line, f"{path}, line {number}")):
            records.append(record)
    return records


def latest(records: Iterable[Record], identity: tuple[str, ...] = IDENTITY) -> list[Record]:
    """One record for each identity: the last that was written, because a rerun appends."""
    return list({tuple(record[key] for key in identity): record for record in records}.values())


def finite(record: Record) -> dict[str, Any]:
    """A record as it is written, with None where a number is not finite.

    >>> finite({"task": "iris", "preset": "paper", "model": "etp", "seed": 0, "epochs": 1, "nll": math.inf})
    {'task': 'iris', 'preset': 'paper', 'model': 'etp', 'seed': 0, 'epochs': 1, 'nll': None}
    """
    missing = [key for key in REQUIRED if key not in record]
    if missing:
        raise InputError(f"a record needs {', '.join(REQUIRED)}, but {', '.join(missing)} is missing.")
    return {key: value if _is_finite(value) else None for key, value in record.items()}


def _decode(line: str, where: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        if not line.rstrip().endswith("}"):
            return None
        raise InputError(f"{where} is no JSON: {error}.") from error
    if not isinstance(record, dict):
        raise InputError(f"{where} is no record, but {type(record).__name__}: a record is a JSON object.")
    return {key: math.nan if value is None and is_score(key) else value for key, value in record.items()}


def _is_finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
