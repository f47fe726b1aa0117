"""JSON lines and markers that survive a kill at any moment: what a run folder is made of."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from totalcal.whole_files import write_whole

Line = dict[str, Any]


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


def read_lines(path: Path) -> list[Line]:
    """The whole lines of a file, in order; none where there is no file. A torn line is left out."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines()
    return [line for raw in lines if (line := _decoded(raw)) is not None]


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """A file of these lines, all of them or none."""
    write_whole(path, "".join(map(_encoded, lines)))


def _encoded(line: Mapping[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False) + "\n"


def _decoded(raw: bytes) -> Line | None:
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None
