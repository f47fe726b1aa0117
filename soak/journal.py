"""What a soak has done so far, a line per case: killed, it goes on where it was, and its parts add up.

A line is a case and how it ended. Journals of several processes or machines are merged with `cat`; a case
that stands there twice counts once.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import totalcal


class Journal:
    """Cases by name, and how they ended; in memory only without a path."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.ends: dict[str, list[Any]] = {}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            for line in path.read_bytes().splitlines(keepends=True):
                if line.endswith(b"\n"):  # a line that a kill has torn was never said
                    case, *end = json.loads(line)
                    self.ends[case] = end
            self._write()

    def __contains__(self, case: str) -> bool:
        return case in self.ends

    def note(self, case: str, *end: Any) -> None:
        self.ends[case] = list(end)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps([case, *end]) + "\n")

    def _write(self) -> None:
        """Each case once, without what was torn."""
        assert self.path is not None
        lines = "".join(json.dumps([case, *end]) + "\n" for case, end in self.ends.items())
        fresh = self.path.with_suffix(".fresh")
        fresh.write_text(lines)
        fresh.replace(self.path)


def code() -> str:
    """A digest of the library and of the harness: a table is never of two versions."""
    folders = Path(totalcal.__file__).parent, Path(__file__).parent
    sums = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            sums.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return sums.hexdigest()[:12]
