"""Tables by column: CSV with and without pyarrow, Parquet and Arrow with it; the same rows and complaints.

A chunk of a CSV that is plain, numbers between commas, is parsed by pyarrow at once. Whatever is not (a value
that is not a number, a line too short, quotes, Macintosh line ends), and every chunk where pyarrow is absent,
is read row by row by the csv module, which has the last word on what a row is.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

import numpy as np

from totalcal.errors import InputError, MissingExtraError, UnreadableFileError
from totalcal.files.budget import check_room
from totalcal.files.predicting.inputs import Chunk, FileState, Floats, file_state, row_names
from totalcal.files.reading import (
    ARROW_MAGIC,
    check_arrow,
    column_places,
    csv_records,
    number,
    open_regular,
    stream_bytes,
    unreadable,
)

if TYPE_CHECKING:
    from totalcal.files.predicting.inputs import RowFormat
    from totalcal.files.steps import InputColumn, Steps

_BLOCK = 1 << 22
_LONGEST_LINE = 1 << 26
_BUFFER = 1 << 16  # of a column of a Parquet file: its row groups need not fit into memory
_SOME_ROWS = 1 << 16
_BYTES_PER_VALUE = 40  # of a CSV in a data frame, with what parsing it takes; a number is eight of them
_COPIES = 3  # of the columns of a Parquet file on their way into one


class TableFile:
    """A CSV with a header line; its columns are found by name where the model knows names."""

    def __init__(self, path: Path, preprocessing: "RowFormat") -> None:
        self.path, self.width = path, preprocessing.shape[0]
        with self._opened() as file:
            plain = _plain_header(file)
            self._start = 0 if plain is None else file.tell()
            file.seek(self._start)
            self._header = next(self._records(file), []) if plain is None else plain
        self._places = _places(path, self._header, preprocessing)
        self._columns = [self._header[place] for place in self._places]

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        row, counts = 0, chain(repeat(size, skip // size), filter(None, [skip % size]), repeat(size))
        if not self._start:  # the header is not plain, so it is the record before row 0
            row, counts = -1, chain()
        with self._opened() as file:
            file.seek(self._start)
            for block in _plain_blocks(file, counts):
                count = block.count(b"\n") + (not block.endswith(b"\n"))
                if row >= skip:
                    yield self._parsed(block, row, count)
                row += count
            records = self._records(file)
            row += sum(1 for _ in islice(records, max(skip - row, 0)))
            while rest := list(islice(records, size)):
                yield self._by_hand(rest, row)
                row += len(rest)

    def state(self) -> list[FileState]:
        return [file_state(self.path, self.path.name)]

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        with unreadable(self.path, "a table", "Save it as CSV in UTF-8."), open_regular(self.path) as file:
            yield file

    def _parsed(self, block: bytes, row: int, count: int) -> Chunk:
        """The rows of plain lines."""
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            bad, byte = row + block.count(b"\n", 0, error.start), block[error.start]
            raise UnreadableFileError(
                f"{self.path} is not UTF-8 text: row {bad} has the byte 0x{byte:02x}. Save it as UTF-8."
            ) from error
        values = _by_arrow(block, len(self._header), self._places)
        if values is None or len(values) != count:
            return self._by_hand(csv.reader(io.StringIO(text, newline="")), row)
        return Chunk.checked(row_names(row, count), values, {}, self._columns)

    def _by_hand(self, records: Iterable[list[str]], row: int) -> Chunk:
        rows: list[list[float]] = []
        reasons: dict[int, str] = {}
        for place, fields in enumerate(records):
            rows.append([0.0] * self.width)
            if len(fields) != len(self._header):
                reasons[place] = f"has {len(fields)} columns, the header has {len(self._header)}"
                continue
            for entry, column in enumerate(self._places):
                try:
                    rows[-1][entry] = number(fields[column])
                except ValueError:
                    reasons[place] = (
                        f"holds a value that is not a number in the column {self._header[column]!r}"
                    )
                    break
        return Chunk.checked(row_names(row, len(rows)), np.array(rows), reasons, self._columns)

    def _records(self, file: BinaryIO) -> Iterator[list[str]]:
        encoding = "utf-8" if file.tell() else "utf-8-sig"
        return csv_records(io.TextIOWrapper(file, encoding, newline=""), self.path)


class ColumnFile:
    """A Parquet or Arrow file; its columns are found by name where the model knows names."""

    KINDS: ClassVar = (".parquet", ".pq", ".arrow", ".feather")

    def __init__(self, path: Path, preprocessing: "RowFormat") -> None:
        try:
            import pyarrow as pa
        except ImportError as error:
            raise MissingExtraError("pyarrow", "tables", f"reading {path.suffix} files") from error
        self.path, self.width = path, preprocessing.shape[0]
        with opened_columns(path) as file:
            schema = schema_of(file)
            names = schema.names  # read here, since damaged ones are an error of the file
        self._columns = [names[place] for place in _places(path, names, preprocessing)]
        for name in self._columns:
            kind = schema.types[names.index(name)]
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
                raise InputError(f"the column {name!r} of {path} holds {kind}, but the model takes numbers.")

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        row = skip
        with opened_columns(self.path) as file:
            batches = record_batches(file, self._columns, size, skip)
            for values in _regrouped(map(self._values, batches), size):
                yield Chunk.checked(row_names(row, len(values)), values, {}, self._columns)
                row += len(values)

    def state(self) -> list[FileState]:
        return [file_state(self.path, self.path.name)]

    def _values(self, batch: Any) -> Floats:
        """A matrix of a batch; what is null becomes NaN."""
        values = np.empty((batch.num_rows, self.width))
        for place, name in enumerate(self._columns):
            column = batch.column(name).cast("float64", safe=False)
            values[:, place] = column.to_numpy(zero_copy_only=False)
        return values


class RawTable:
    """A CSV with a header line, Parquet or Arrow; columns are found by name, and rows have passed the steps.

    A row whose values are of another kind, or that a step refuses, is a complaint.
    """

    def __init__(self, path: Path, steps: "Steps", width: int = 0) -> None:
        if path.suffix.lower() not in (".csv", *ColumnFile.KINDS) or not path.is_file():
            raise InputError(
                f"a model behind a pipeline takes its raw columns as .csv, {', '.join(ColumnFile.KINDS)}, "
                f"not {path}."
            )
        if steps.columns is None:
            raise InputError(
                "the file does not say which columns its pipeline takes: it was fitted on a plain array, or "
                "as scikit-learn's own. Save it with example=rows of the data frame it was fitted on."
            )
        self.path, self.steps, self.columns = path, steps, steps.columns
        self.width = max(len(self.columns), width)  # of what the steps make, if that is more

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        row = skip
        for block in (self._of_lines if self.path.suffix.lower() == ".csv" else self._of_columns)(size, skip):
            yield self._chunk(block, row)
            row += len(block)

    def _of_lines(self, size: int, skip: int) -> Iterator[list[Sequence[Any] | str]]:
        with (
            unreadable(self.path, "a table", "Save it as CSV in UTF-8."),
            io.TextIOWrapper(open_regular(self.path), "utf-8-sig", newline="") as file,
        ):
            lines = csv_records(file, self.path)
            header = next(lines, [])
            places, rows = self._places(header), islice(lines, skip, None)
            while block := list(islice(rows, size)):
                yield [
                    [line[place] for place in places]
                    if len(line) == len(header)
                    else f"has {len(line)} columns, the header has {len(header)}"
                    for line in block
                ]

    def _of_columns(self, size: int, skip: int) -> Iterator[list[Sequence[Any] | str]]:
        names = [column.name for column in self.columns]
        with opened_columns(self.path) as file:
            self._places(schema_of(file).names)
            for batch in record_batches(file, names, size, skip):
                yield [*zip(*(batch.column(name).to_pylist() for name in names), strict=True)]

    def _places(self, header: Sequence[str]) -> list[int]:
        return column_places(self.path, header, [name for name, _ in self.columns])

    def state(self) -> list[FileState]:
        return [file_state(self.path, self.path.name)]

    def _chunk(self, block: list[Sequence[Any] | str], row: int) -> Chunk:
        reasons: dict[int, str] = {}
        table: dict[int, list[Any]] = {}
        for place, fields in enumerate(block):
            try:
                if isinstance(fields, str):
                    raise ValueError(fields)
                table[place] = list(map(_value, fields, self.columns))
            except ValueError as error:
                reasons[place] = str(error)
        passed = self._passed(table, reasons)
        empty = np.zeros(len(next(iter(passed.values()))) if passed else 0)
        values = np.stack([passed.get(place, empty) for place in range(len(block))])
        return Chunk.checked(row_names(row, len(block)), values, reasons)

    def _passed(self, table: dict[int, list[Any]], reasons: dict[int, str]) -> dict[int, Any]:
        """Through the steps: all rows at once, or each by itself if one of them is refused."""
        if not table:
            return {}
        rows = np.empty((len(table), len(self.columns)), dtype=object)
        rows[:] = list(table.values())
        try:
            return dict(zip(table, self.steps(rows), strict=True))
        except ValueError as error:
            if len(table) == 1:
                reasons[next(iter(table))] = f"cannot be used: {str(error).removesuffix('.')}"
                return {}
        passed: dict[int, Any] = {}
        for place, row in table.items():
            passed |= self._passed({place: row}, reasons)
        return passed


def read_table(path: Path) -> Any:
    """A .csv or .parquet as a data frame, if that fits into the budget of memory.

    Raises:
        UnreadableFileError: If it is not there, or no table.
        InputError: If it is too large, or has two columns of one name.
        MissingExtraError: Without pandas.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "tables", "reading tables") from error
    if path.suffix.lower() == ".parquet":
        import pyarrow as pa

        with opened_columns(path) as file:
            schema, batches, held = schema_of(file), [], 0
            column_places(path, schema.names, schema.names)
            for batch in record_batches(file, schema.names, _SOME_ROWS, 0):
                held += batch.nbytes
                check_room(_COPIES * held, str(path))
                batches.append(batch)
            return pa.Table.from_batches(batches, schema).to_pandas()
    values, size = 1, 0
    for block in stream_bytes(path):
        values, size = values + block.count(b",") + block.count(b"\n"), size + len(block)
    check_room(_BYTES_PER_VALUE * values + size, str(path))
    with unreadable(path, "a table", "Save it as CSV in UTF-8."), open_regular(path) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", newline="")
        header = next(filter(None, csv_records(text, path)), [])
        column_places(path, header, header)
        text.detach().seek(0)
        return pd.read_csv(file)


@contextmanager
def opened_columns(path: Path) -> Iterator[Any]:
    """A reader of pyarrow; a row group of Parquet need not fit into memory, nor a batch of Arrow."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "tables", f"reading {path.suffix} files") from error
    is_parquet = path.suffix.lower() in (".parquet", ".pq")
    with unreadable(path, f"a table in {'Parquet' if is_parquet else 'Arrow'}"), open_regular(path):
        if is_parquet:
            with pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
                yield file
            return
        check_arrow(path)
        with pa.memory_map(str(path)) as source:
            is_stream = source.read_at(len(ARROW_MAGIC), 0) != ARROW_MAGIC
            with pa.ipc.open_stream(source) if is_stream else pa.ipc.open_file(source) as file:
                yield file


def schema_of(file: Any) -> Any:
    """The Arrow schema of an open Parquet or Arrow file."""
    return getattr(file, "schema_arrow", file.schema)


def record_batches(file: Any, columns: Sequence[str], size: int, skip: int) -> Iterator[Any]:
    """What an open file has after its first rows, in record batches of at most so many."""
    if hasattr(file, "num_row_groups"):
        groups = list(range(file.num_row_groups))
        while groups and (rows := file.metadata.row_group(groups[0]).num_rows) <= skip:
            skip -= rows
            del groups[0]  # it is not even read
        batches = file.iter_batches(size, groups, list(columns), use_threads=False)
    else:
        count = getattr(file, "num_record_batches", None)  # a stream does not know
        batches = file if count is None else map(file.get_batch, range(count))
    for batch in batches:
        batch.validate(full=True)  # words that end beyond their buffer would be a segfault
        dropped = min(skip, batch.num_rows)
        skip -= dropped
        for start in range(dropped, batch.num_rows, size):
            yield batch.slice(start, size)


def _regrouped(blocks: Iterable[Floats], size: int) -> Iterator[Floats]:
    """The same rows, so many at a time.

    >>> [block.ravel().tolist() for block in _regrouped([np.ones((3, 1)), np.zeros((2, 1))], 4)]
    [[1.0, 1.0, 1.0, 0.0], [0.0]]
    """
    pending: list[Floats] = []
    held = 0
    for block in blocks:
        start = 0
        while start < len(block):
            pending.append(block[start : start + size - held])
            start += len(pending[-1])
            held += len(pending[-1])
            if held == size:
                yield np.concatenate(pending)
                pending, held = [], 0
    if pending:
        yield np.concatenate(pending)


def _places(path: Path, header: Sequence[str], preprocessing: "RowFormat") -> list[int]:
    """Where in a table the columns are that the model takes."""
    width, columns = preprocessing.shape[0], preprocessing.columns
    if len(preprocessing.shape) != 1:
        raise InputError(f"the model takes rows of shape {preprocessing.shape}, which {path} cannot hold.")
    if columns is None:
        if len(header) != width:
            raise InputError(f"the model takes {width} columns, but {path} has {len(header)} in its header.")
        return list(range(width))
    return column_places(path, header, columns)


def _plain_header(file: BinaryIO) -> list[str] | None:
    """The names in the first line, if that is all of the header; the file is left behind it."""
    line = file.readline(_LONGEST_LINE)
    if _has_lone_return(line):
        return None
    try:
        return next(csv.reader([line.decode("utf-8-sig")], strict=True), [])
    except csv.Error:
        return None


def _plain_blocks(file: BinaryIO, counts: Iterable[int]) -> Iterator[bytes]:
    """So many lines each, while they are lines and no quoted text; the file is left at what comes then."""
    place, buffer, ends, is_end = file.tell(), b"", np.empty(0, np.intp), False
    for count in counts:
        while len(ends) < count and not is_end:
            more = file.read(max(_BLOCK, len(buffer)))
            buffer, is_end = buffer + more, not more
            ends = np.flatnonzero(np.frombuffer(buffer, np.uint8) == ord("\n")) + 1
            if len(buffer) > _LONGEST_LINE and not len(ends):
                raise ValueError(f"a line has more than {_LONGEST_LINE} bytes")
        cut = int(ends[count - 1]) if len(ends) >= count else len(buffer)
        block, buffer, ends = buffer[:cut], buffer[cut:], ends[count:] - cut
        if not block or b'"' in block or _has_lone_return(block):
            break
        yield block
        place += cut
    file.seek(place)


def _has_lone_return(block: bytes) -> bool:
    return block.count(b"\r") != block.count(b"\r\n")


def _by_arrow(block: bytes, width: int, places: Sequence[int]) -> Floats | None:
    """The numbers of plain lines, or None where they are not all numbers, or pyarrow is not there."""
    try:
        import pyarrow as pa
        import pyarrow.csv as arrow
    except ImportError:
        return None
    names = [str(place) for place in range(width)]
    try:
        found = arrow.read_csv(
            pa.BufferReader(block),
            arrow.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
            arrow.ParseOptions(quote_char=False),
            arrow.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names, pa.float64()),
                include_columns=[names[place] for place in dict.fromkeys(places)],
                null_values=[],
            ),
        )
    except pa.ArrowInvalid:
        return None
    values = np.empty((found.num_rows, len(places)))
    for column, place in enumerate(places):
        values[:, column] = found.column(names[place]).to_numpy()
    return values


_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def _value(field: Any, column: "InputColumn") -> Any:
    """What a field of a CSV says, or a value that has a type already; an empty one is missing."""
    if field is None or field != field or (isinstance(field, str) and not field.strip()):
        return np.nan
    try:
        match column.kind:
            case "word" if isinstance(field, str):
                return field
            case "number":
                return number(field) if isinstance(field, str) else float(field)
            case "boolean":
                return _TRUTH[str(field).strip().lower()]
    except (ValueError, TypeError, KeyError):
        pass
    shown = repr(field[:40]) if isinstance(field, str) else str(field)[:40]
    raise ValueError(f"has {shown} in the column {column.name!r}, which holds {column.kind}s")
