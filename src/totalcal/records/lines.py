"""JSON lines that survive a kill at any moment, and the one rule for reading what a kill left.

A line that a kill cut short is the beginning of one that was never finished: it is left out, since nobody was
told that it was written. Any other line that is no JSON object was damaged later: that is an error.
"""

import codecs
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from totalcal.errors import InputError, UnreadableFileError
from totalcal.reading import parse_json
from totalcal.whole_files import write_whole

Line = dict[str, Any]
Record = Mapping[str, Any]

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
        raise _damaged(where, f"is no UTF-8: {error}") from error
    except UnreadableFileError as error:
        if isinstance(error.__cause__, json.JSONDecodeError) and _is_cut_short(text, error.__cause__):
            return None
        raise _damaged(where, f"is no JSON: {error.__cause__}") from error
    if not isinstance(line, dict):
        raise _damaged(where, f"holds {type(line).__name__}, not a JSON object")
    return line


def _is_cut_short(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the text is right as far as it goes."""
    if not text.startswith("{"):
        return False
    if error.msg.startswith("Unterminated string"):
        return not text.endswith("}")  # a lost quote mark, more likely
    return _BEGUN.fullmatch(text[error.pos :]) is not None


def _damaged(where: str, what: str) -> InputError:
    return InputError(f"{where} {what}. The file was damaged after it was written: mend or delete the line.")
