"""Records on disk: JSON lines that survive a kill at any moment, appended and never changed.

A line that a kill cut short is the beginning of one that was never finished: it is left out, since nobody was
told that it was written. Any other line that is not a JSON object was damaged later: that is an error.

A record is flat. It says what ran (task, preset, model, seed, epochs) and what came out, as fractions:
`{"task": "fashion", "preset": "paper", "model": "etp", "seed": 0, "epochs": 50, "error": 0.079, "auroc": 0.9,
"auroc/mnist": 0.9, …}`. A score that is not finite is written as null and read as NaN.
"""

import codecs
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from totalcal.errors import InputError, UnreadableFileError
from totalcal.files import parse_json, write_whole
from totalcal.report import Record, is_score

Line = dict[str, Any]

_SEAL = "crc32"
_BEGUN = re.compile(r"[-+.\w\\]{0,6}")  # of a number, of `true`, of an escape


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """One line at the end of the file, on the disk when this returns.

    A line that a kill cut short is closed first, so that it cannot swallow this one.
    """
    with path.open("ab+") as file:
        size = file.seek(0, os.SEEK_END)
        if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
            file.write(b"\n")
        file.write(_encoded(line).encode())
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: str | os.PathLike[str]) -> list[Line]:
    """The whole lines of a file, in order; none where there is no file.

    Raises:
        InputError: a line is damaged, other than by a kill in the middle of writing it.
    """
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        return []
    numbered = enumerate(raw.split(b"\n"), start=1)
    found = (_decoded(line, f"{path}, line {number}") for number, line in numbered if line.strip(b" \t\r\0"))
    return [line for line in found if line is not None]


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """A file of these lines, all of them or none."""
    write_whole(path, "".join(map(_encoded, lines)))


def _encoded(line: Mapping[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False) + "\n"


def _decoded(raw: bytes, where: str) -> Line | None:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(raw)  # half a letter at the end is left out
        line = parse_json(text, where)
    except UnicodeDecodeError as error:
        raise _damaged(where, f"is not UTF-8: {error}") from error
    except UnreadableFileError as error:
        if isinstance(error.__cause__, json.JSONDecodeError) and _is_cut_short(text, error.__cause__):
            return None
        raise _damaged(where, f"is not JSON: {error.__cause__}") from error
    if not isinstance(line, dict):
        raise _damaged(where, f"holds {type(line).__name__}, not a JSON object")
    if line.pop(_SEAL, None) not in (None, _checksum(line)):
        raise _damaged(where, "is not what its checksum says")
    return line


def _checksum(line: Mapping[str, Any]) -> int:
    return crc32(_encoded(line).encode())


def _is_cut_short(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the text is right as far as it goes."""
    if not text.startswith("{"):
        return False
    if error.msg.startswith("Unterminated string"):
        return not text.endswith("}")  # a lost quote mark, more likely
    return _BEGUN.fullmatch(text[error.pos :]) is not None


def _damaged(where: str, what: str) -> InputError:
    return InputError(f"{where} {what}. The file was damaged after it was written: mend or delete the line.")


REQUIRED = ("task", "preset", "model", "seed", "epochs")
_KINDS: dict[str, tuple[type, ...]] = {
    "task": (str,),
    "preset": (str,),
    "model": (str,),
    "seed": (int,),
    "settings": (dict,),
    "majority_error": (int, float),
}


def append(path: str | os.PathLike[str], record: Record, sealed: bool = False) -> None:
    """Add a record to a file, which is made if need be; safe for several processes at once.

    A `sealed` line brings its own checksum, for a file that grows after everything else was vouched for.
    """
    from filelock import FileLock

    line = finite(record)
    if sealed:
        line[_SEAL] = _checksum(line)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(target.name + ".lock")):
        append_line(target, line)


def read_records(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The records of a file in order.

    Raises:
        InputError: there is no such file, or a line of it is damaged.
    """
    if not Path(path).is_file():
        raise InputError(f"there are no records at {path}.")
    return [
        _as_read(line, f"{path}, record {number}") for number, line in enumerate(read_lines(path), start=1)
    ]


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
            raise InputError(
                f"{where} has {value!r} for {key!r}: it was damaged, or is not a record of totalcal."
            )
    scores = {key: math.nan for key, value in line.items() if value is None and is_score(key)}
    return line | scores


def _is_finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
