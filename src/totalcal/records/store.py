"""Records on disk: one JSON object per line, appended and never changed.

A record is flat. It says what ran (task, preset, model, seed, epochs) and what came out, as fractions:
`{"task": "fashion", "preset": "paper", "model": "etp", "seed": 0, "epochs": 50, "error": 0.079, "auroc": 0.9,
"auroc/mnist": 0.9, …}`. A score that is not finite is written as null and read as NaN.
"""

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from totalcal.errors import InputError
from totalcal.records.labels import current_name, is_score
from totalcal.records.lines import Line, Record, append_line, read_lines

REQUIRED = ("task", "preset", "model", "seed", "epochs")
IDENTITY = ("task", "preset", "model", "seed")
_KINDS: dict[str, tuple[type, ...]] = {
    "task": (str,),
    "preset": (str,),
    "model": (str,),
    "seed": (int,),
    "settings": (dict,),
    "majority_error": (int, float),
}


def append(path: str | os.PathLike[str], record: Record) -> None:
    """Add a record to a file, which is made if need be; safe for several processes at once."""
    from filelock import FileLock

    line = finite(record)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(target.name + ".lock")):
        append_line(target, line)


def read(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The records of a file in order, models by the names they have now.

    Raises:
        InputError: there is no such file, or a line of it is damaged.
    """
    if not Path(path).is_file():
        raise InputError(f"there are no records at {path}.")
    return [
        _as_read(line, f"{path}, record {number}") for number, line in enumerate(read_lines(path), start=1)
    ]


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


def _as_read(line: Line, where: str) -> Line:
    for key, value in line.items():
        kinds = (int, float, type(None)) if is_score(key) else _KINDS.get(key)
        if kinds and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise InputError(f"{where} has {value!r} for {key!r}: it was damaged, or is no record of ours.")
    named = {"model": current_name(line["model"])} if "model" in line else {}
    scores = {key: math.nan for key, value in line.items() if value is None and is_score(key)}
    return line | named | scores


def _is_finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
