"""Where answers go: a CSV, Parquet or Arrow file that grows a chunk at a time and survives a kill.

Until all is done the answers are in `path`.part, as CSV or as an Arrow stream; rows that could not be used
are in `path`.bad with their reasons; `path`.progress has a line for each finished chunk: how many rows were
done, how long both files were, and a checksum of what the chunk added. What a kill left beyond the last line
is cut off. What is shorter than a line says, or other than its checksum, is cut off with all that follows.
Whoever writes holds the lock `path`.lock.
"""

import json
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt

from totalcal.errors import InputError, MissingExtraError
from totalcal.files.reading import parse_json
from totalcal.files.whole_files import exclusive, write_whole
from totalcal.report.table import csv_text

if TYPE_CHECKING:
    import pyarrow as pa

ColumnValues = Sequence[Any] | npt.NDArray[np.float64]
"""Numbers as an array; names and words as a list."""

ROW_GROUP = 1 << 17
_REPEATED = [
    "class",
    "decision",
    "reason",
    "model",
]  # a dictionary of numbers would take longer than all else
_KINDS = {".parquet": "Parquet", ".pq": "Parquet", ".arrow": "Arrow", ".feather": "Arrow"}


def format_of(path: Path, names: Sequence[str], classes: Sequence[Any]) -> "AsCSV | AsColumns":
    """How answers are written, by the suffix: all but .parquet, .pq, .arrow and .feather is CSV.

    The first column holds names and the second classes, `decision`, `reason` and `model` words, all others
    numbers.
    """
    kind = _KINDS.get(path.suffix.lower())
    return AsCSV(names) if kind is None else AsColumns(kind, names, classes)


class AsCSV:
    """Numbers with six digits; text that a spreadsheet would run as a formula has an apostrophe in front."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def begin(self) -> bytes:
        return csv_text([self.names]).encode()

    def chunk(self, columns: Sequence[ColumnValues]) -> bytes:
        """All values in one go, which takes a third of the time of formatting them one by one."""
        numeric = [isinstance(column, np.ndarray) for column in columns]
        line = ",".join("%.6g" if is_number else "%s" for is_number in numeric) + "\n"
        values = [column.tolist() if isinstance(column, np.ndarray) else _texts(column) for column in columns]
        return (line * len(columns[0]) % tuple(chain.from_iterable(zip(*values, strict=True)))).encode()

    def finish(self, part: Path, path: Path) -> None:
        part.replace(path)


class AsColumns:
    """Parquet or Arrow, from an Arrow stream, to which a chunk can be added, and which can be cut off."""

    def __init__(self, kind: str, names: Sequence[str], classes: Sequence[Any]) -> None:
        try:
            import pyarrow as pa
        except ImportError as error:
            raise MissingExtraError("pyarrow", "tables", f"writing {kind}") from error
        self.kind = kind
        words = {"decision", "reason", "model"}
        others = [pa.string() if name in words else pa.float64() for name in names[2:]]
        kinds = [pa.string(), _type_of(classes), *others]
        self.schema = pa.schema([*zip(names, kinds, strict=True)])

    def begin(self) -> bytes:
        return bytes(self.schema.serialize())

    def chunk(self, columns: Sequence[ColumnValues]) -> bytes:
        import pyarrow as pa

        named, classes, *others = columns
        if self.schema.types[1] == pa.string():
            classes = list(map(str, classes))
        typed = zip((named, classes, *others), self.schema.types, strict=True)
        arrays = [pa.array(column, kind) for column, kind in typed]
        return bytes(pa.record_batch(arrays, schema=self.schema).serialize())

    def finish(self, part: Path, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        whole = beside(path, ".whole")
        with pa.OSFile(str(part)) as source, whole.open("wb") as target, pa.ipc.open_stream(source) as stream:
            if self.kind == "Parquet":
                with pq.ParquetWriter(target, self.schema, use_dictionary=_REPEATED) as writer:
                    for rows in _gathered(stream):
                        writer.write_table(rows, row_group_size=ROW_GROUP)
            else:
                with pa.ipc.new_file(target, self.schema) as writer:
                    for rows in stream:
                        writer.write_batch(rows)
            target.flush()
            os.fsync(target.fileno())
        whole.replace(path)
        part.unlink()


def _gathered(batches: Any) -> Iterator["pa.Table"]:
    """Tables of some 100,000 rows: a row group per chunk would make a large file of small pieces."""
    import pyarrow as pa

    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= ROW_GROUP:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _type_of(classes: Sequence[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(list(classes)).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.string()  # names of several kinds


@dataclass(frozen=True)
class Note:
    """A line of progress: what was there when a chunk was done.

    Attributes:
        rows: All of them, the bad ones too.
        part: Bytes of the answers.
        bad: Bytes of the complaints.
        bad_rows: Those that could not be used.
        check: Of what the chunk added to both and of these numbers.
    """

    rows: int
    part: int
    bad: int
    bad_rows: int = 0
    check: int = 0

    def __post_init__(self) -> None:
        numbers = (self.rows, self.part, self.bad, self.bad_rows)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError(f"rows and bytes are counted from 0, but got {numbers}")

    def checksum(self, part: bytes, bad: bytes) -> int:
        """Of what the chunk added, and of these numbers themselves."""
        numbers = f"{self.rows} {self.part} {self.bad} {self.bad_rows}".encode()
        return crc32(numbers, crc32(bad, crc32(part)))


class ResumableOutput:
    """Answers to `path`, and complaints to `path`.bad; see above."""

    def __init__(self, path: Path, fingerprint: str, form: AsCSV | AsColumns) -> None:
        self.path, self.fingerprint, self.form = path, fingerprint, form
        self.part, self.bad = beside(path, ".part"), beside(path, ".bad")
        self.progress = beside(path, ".progress")
        self._note = Note(0, 0, 0)
        self._streams: tuple[BinaryIO, ...] = ()
        self.lock = beside(path, ".lock")

    @property
    def rows(self) -> int:
        return self._note.rows

    @property
    def bad_rows(self) -> int:
        return self._note.bad_rows

    def __enter__(self) -> Self:
        busy = InputError(f"another process is writing {self.path}. Wait for it, or choose another output.")
        with ExitStack() as held:
            held.enter_context(exclusive(self.lock, busy))
            self._start()
            self._held = held.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        with self._held:
            if error[0] is None and self._streams:
                self._write(self._streams[-1], json.dumps(_FINISHED).encode())
            for stream in self._streams:
                stream.close()
            if error[0] is None:
                self._finish()

    def append(self, columns: Sequence[ColumnValues], bad: Sequence[Sequence[object]], rows: int) -> None:
        """One chunk of so many rows, safe on disk before it counts as done."""
        added = self.form.chunk(columns) if columns else b"", csv_text(bad).encode()
        part, bad_part, progress = self._streams
        self._write(part, added[0])
        self._write(bad_part, added[1])
        was = self._note
        note = Note(
            was.rows + rows, was.part + len(added[0]), was.bad + len(added[1]), was.bad_rows + len(bad)
        )
        self._note = replace(note, check=note.checksum(*added))
        self._write(progress, json.dumps(asdict(self._note)).encode() + b"\n")

    def _start(self) -> None:
        """Begin, or go on after the last chunk that is sound."""
        fingerprint, notes, is_finished = self._read_progress() if self.progress.exists() else ("", [], False)
        is_ours = fingerprint == self.fingerprint
        if self.path.exists() and not (is_ours and is_finished):
            raise InputError(f"{self.path} already exists. Move it away, or choose another output.")
        if self.path.exists():  # killed when only tidying up was left
            self._note, self._streams = notes[-1], ()
            return
        if notes and not is_ours:
            raise InputError(
                f"{self.progress} belongs to another model, other inputs or other options. "
                "Remove it to start from the first row."
            )
        sound = self._sound(notes)
        if len(sound) < len(notes):
            rows = sound[-1].rows if sound else 0
            warnings.warn(
                f"{self.part} or {self.bad} is not as it was written: of {notes[-1].rows} rows the first "
                f"{rows} are sound. Going on from there.",
                stacklevel=4,
            )
        if not sound:
            head = self.form.begin()
            self.part.write_bytes(head)
            self.bad.write_bytes(b"")
            first = Note(0, len(head), 0)
            sound = [replace(first, check=first.checksum(head, b""))]
        self._open(sound)

    def _open(self, notes: Sequence[Note]) -> None:
        self._note = notes[-1]
        os.truncate(self.part, self._note.part)
        os.truncate(self.bad, self._note.bad)
        first = {"fingerprint": self.fingerprint} | asdict(notes[0])
        lines = [first, *map(asdict, notes[1:])]
        write_whole(self.progress, "".join(json.dumps(line) + "\n" for line in lines))
        self._streams = self.part.open("ab"), self.bad.open("ab"), self.progress.open("ab")

    def _read_progress(self) -> tuple[str, list[Note], bool]:
        """Whose progress it is, its lines, and whether all rows were done; a line torn by a kill is none."""
        lines = self.progress.read_bytes().splitlines()
        try:
            first = parse_json(lines[0].decode(), str(self.progress))
            fingerprint, notes = first.pop("fingerprint"), [Note(**first)]
        except (IndexError, ValueError, TypeError, AttributeError, KeyError) as error:
            raise InputError(
                f"{self.progress} cannot be read. Remove it to start from the first row."
            ) from error
        for line in lines[1:]:
            try:
                content = parse_json(line.decode(), str(self.progress))
                if content == _FINISHED:
                    return fingerprint, notes, True
                notes.append(Note(**content))
            except (ValueError, TypeError):
                break
        return fingerprint, notes, False

    def _sound(self, notes: Sequence[Note]) -> list[Note]:
        """Those of the notes, from the first on, that what is in the files agrees with."""
        if not (self.part.exists() and self.bad.exists()):
            return []
        sound: list[Note] = []
        was = Note(0, 0, 0)
        sizes = self.part.stat().st_size, self.bad.stat().st_size
        with self.part.open("rb") as part, self.bad.open("rb") as bad:
            for note in notes:
                if not (was.part <= note.part <= sizes[0] and was.bad <= note.bad <= sizes[1]):
                    break
                added = part.read(note.part - was.part), bad.read(note.bad - was.bad)
                if note.checksum(*added) != note.check:
                    break
                sound.append(note)
                was = note
        return sound

    def _write(self, stream: BinaryIO, content: bytes) -> None:
        if content:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())

    def _finish(self) -> None:
        if not self.path.exists():
            self.form.finish(self.part, self.path)
        self.part.unlink(missing_ok=True)
        self.progress.unlink()
        if self.bad.stat().st_size == 0:
            self.bad.unlink()
        with suppress(OSError):  # not every system lets one remove a file that is open
            self.lock.unlink()


_FINISHED = "finished"
_ODD = re.compile(r'[",\r]|^[=+\-−@\t]', re.MULTILINE)


def beside(path: Path, suffix: str) -> Path:
    """The file next to an output whose name has one more suffix."""
    return path.with_name(path.name + suffix)


def _texts(values: Sequence[object]) -> Sequence[object]:
    """Names and words as they stand in a CSV; nearly always that is as they are."""
    text = "\n".join(map(str, values))
    if text.count("\n") == len(values) - 1 and not _ODD.search(text):
        return values
    written = {value: csv_text([[value, ""]])[:-2] for value in set(values)}
    return [written[value] for value in values]
