"""From a model file and inputs to a CSV of classes, probabilities, uncertainties and decisions.

The output grows a chunk at a time; after a kill it goes on from the last whole chunk.
"""

import csv
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import NamedTuple, Self

from totalcal.errors import InputError
from totalcal.files.saved import SavedModel, load
from totalcal.pictures import picture_files
from totalcal.predicting.answers import answers, check_draws, class_names, score_names
from totalcal.predicting.inputs import Chunk, rows_of
from totalcal.types import Draws
from totalcal.whole_files import write_whole


class Summary(NamedTuple):
    """What a run of predictions did: rows read in all, rows of this call, bad rows in all, and its output."""

    rows: int
    rows_now: int
    bad_rows: int
    output: Path


def predict_file(
    model: Path,
    inputs: Path,
    output: Path,
    *,
    draws: Draws | None = None,
    chunk_size: int = 256,
    strict: bool = False,
    on_rows: Callable[[int], None] = lambda rows: None,
) -> Summary:
    """A line for each row of `inputs`, in order; called again after a kill, it goes on where it was.

    Args:
        model: A file that `save` wrote.
        inputs: A .csv with a header, an .npz, or a folder of images.
        output: The table to write. Rows that cannot be used stand in `output`.bad with their reason.
        draws: Of weights and memory. Left out, they are those that the file's gate was fitted with, or 10
            without a gate. For a gate of totalcal 0.1, which does not know them, they must be said.
        chunk_size: Rows at a time.
        strict: Whether the first row that cannot be used ends the run.
        on_rows: Is told of every chunk.

    Returns:
        How many rows there were.

    Raises:
        InputError: If there is nothing to read or the output is there already; with `strict`, for a bad row.
        GateError: If `draws` are not those of the gate.
    """
    saved = load(model)
    check_draws(saved, draws)
    rows = rows_of(inputs, saved.preprocessing)
    probabilities = (f"p({name})" for name in class_names(saved))
    header = ["row", "class", *probabilities, *score_names(saved), "decision", "reason"]
    fingerprint = f"{_digest(model)} {_state(inputs)} {draws} {chunk_size}"
    with ResumableOutput(output, fingerprint, header) as file:
        before = file.rows
        on_rows(before)
        for chunk in rows.chunks(chunk_size, skip=before):
            if strict and chunk.complaints:
                name, reason = chunk.complaints[0]
                raise InputError(f"{name} {reason}. Mend or remove it, or predict without --strict.")
            file.append(_lines(saved, chunk, draws), chunk.complaints, chunk.rows)
            on_rows(chunk.rows)
    return Summary(file.rows, file.rows - before, file.bad_rows, output)


def _lines(saved: SavedModel, chunk: Chunk, draws: Draws | None) -> list[list[object]]:
    if not chunk.names:
        return []
    found = answers(saved, chunk.values, draws)
    return [
        [
            name,
            best,
            *(f"{p:.6g}" for p in found.probabilities[i]),
            *(f"{column[i]:.6g}" for column in found.scores.values()),
            found.decisions[i],
            found.reasons[i],
        ]
        for i, (name, best) in enumerate(zip(chunk.names, found.best, strict=True))
    ]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _state(inputs: Path) -> str:
    """Changes when the inputs do: size and time of a file, or of all images of a folder."""
    files = picture_files(inputs) if inputs.is_dir() else [inputs]
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr(stats).encode()).hexdigest()


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
        self.rows = self.bad_rows = 0
        if self.progress.exists():
            self._resume()
        else:
            self._begin(header)

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

    def append(self, lines: Iterable[Sequence[object]], bad: Sequence[Sequence[object]], rows: int) -> None:
        """One chunk of so many rows, safe on disk before it counts as done."""
        for stream, content in zip(self._streams, (lines, bad), strict=True):
            stream.write(_csv(content))
            stream.flush()
            os.fsync(stream.fileno())
        self.rows += rows
        self.bad_rows += len(bad)
        self._note()

    def _begin(self, header: Sequence[str]) -> None:
        self.part.write_bytes(_csv([header]))
        self.bad.write_bytes(b"")
        self._note()

    def _resume(self) -> None:
        noted = json.loads(self.progress.read_text())
        if noted["fingerprint"] != self.fingerprint:
            raise InputError(
                f"{self.progress} belongs to another model or other inputs. "
                "Remove it to start from the first row."
            )
        os.truncate(self.part, noted["part"])
        os.truncate(self.bad, noted["bad"])
        self.rows, self.bad_rows = int(noted["rows"]), int(noted.get("bad_rows", 0))

    def _note(self) -> None:
        noted = {
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "bad_rows": self.bad_rows,
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
