"""Two files that grow together, a chunk at a time; after a kill they go on from the last whole chunk."""

import csv
import json
import os
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import Self

from totalcal.errors import InputError
from totalcal.whole_files import write_whole


class ResumableOutput:
    """`path` and, beside it, `path`.bad for rows that could not be used.

    Until all is done the first is `path`.part, with its progress in `path`.progress: how many rows are
    finished, and how long both files were then. What a kill left beyond that is cut off.
    """

    def __init__(self, path: Path, fingerprint: str, header: Sequence[str]) -> None:
        self.path, self.fingerprint = path, fingerprint
        self.part, self.bad = _beside(path, ".part"), _beside(path, ".bad")
        self.progress = _beside(path, ".progress")
        if path.exists():
            raise InputError(f"{path} is there already. Move it away, or choose another output.")
        self.rows = self._resume() if self.progress.exists() else self._begin(header)

    def __enter__(self) -> Self:
        self._streams = self.part.open("ab"), self.bad.open("ab")
        return self

    def __exit__(self, *error: object) -> None:
        for stream in self._streams:
            stream.close()
        if error[0] is None:
            self.part.replace(self.path)
            self.progress.unlink()
            if self.bad.stat().st_size == 0:
                self.bad.unlink()

    def append(self, lines: Iterable[Sequence[object]], bad: Iterable[Sequence[object]], rows: int) -> None:
        """One chunk of so many rows, safe on disk before it counts as done."""
        for stream, content in zip(self._streams, (lines, bad), strict=True):
            stream.write(_csv(content))
            stream.flush()
            os.fsync(stream.fileno())
        self.rows += rows
        self._note()

    def _begin(self, header: Sequence[str]) -> int:
        self.rows = 0
        self.part.write_bytes(_csv([header]))
        self.bad.write_bytes(b"")
        self._note()
        return 0

    def _resume(self) -> int:
        noted = json.loads(self.progress.read_text())
        if noted["fingerprint"] != self.fingerprint:
            raise InputError(
                f"{self.progress} belongs to another model or other inputs. "
                "Remove it to start from the first row."
            )
        os.truncate(self.part, noted["part"])
        os.truncate(self.bad, noted["bad"])
        return int(noted["rows"])

    def _note(self) -> None:
        noted = {
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "part": self.part.stat().st_size,
            "bad": self.bad.stat().st_size,
        }
        write_whole(self.progress, json.dumps(noted))


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _csv(lines: Iterable[Sequence[object]]) -> bytes:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()
