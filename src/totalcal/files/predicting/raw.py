"""A table of raw columns, words and empty values among them, through the steps of a pipeline."""

from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from totalcal.errors import InputError
from totalcal.files.predicting.inputs import Chunk, FileState, file_state, row_names
from totalcal.files.predicting.tables import ColumnFile, opened_columns, record_batches, schema_of
from totalcal.files.reading import column_places, csv_records, number, open_regular, unreadable

if TYPE_CHECKING:
    from totalcal.files.steps import InputColumn, Steps

Fields = Sequence[Any]
"""The values of a row, in the order of the model's columns."""

_TRUTH = {"true": True, "1": True, "false": False, "0": False}


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

    def _of_lines(self, size: int, skip: int) -> Iterator[list[Fields | str]]:
        with (
            unreadable(self.path, "a table", "Save it as CSV in UTF-8."),
            TextIOWrapper(open_regular(self.path), "utf-8-sig", newline="") as file,
        ):
            lines = csv_records(file, self.path)
            header = next(lines, [])
            places, rows = self._places(header), islice(lines, skip, None)
            while block := list(islice(rows, size)):
                yield [_fields(line, len(header), places) for line in block]

    def _of_columns(self, size: int, skip: int) -> Iterator[list[Fields | str]]:
        names = [column.name for column in self.columns]
        with opened_columns(self.path) as file:
            self._places(schema_of(file).names)
            for batch in record_batches(file, names, size, skip):
                yield [*zip(*(batch.column(name).to_pylist() for name in names), strict=True)]

    def _places(self, header: Sequence[str]) -> list[int]:
        return column_places(self.path, header, [name for name, _ in self.columns])

    def state(self) -> list[FileState]:
        return [file_state(self.path, self.path.name)]

    def _chunk(self, block: list[Fields | str], row: int) -> Chunk:
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
        try:
            return dict(zip(table, self.steps(_as_table(list(table.values()))), strict=True))
        except ValueError as error:
            if len(table) == 1:
                reasons[next(iter(table))] = f"cannot be used: {str(error).removesuffix('.')}"
                return {}
        passed: dict[int, Any] = {}
        for place, row in table.items():
            passed |= self._passed({place: row}, reasons)
        return passed


def _as_table(rows: list[list[Any]]) -> Any:
    table = np.empty((len(rows), len(rows[0])), dtype=object)
    table[:] = rows
    return table


def _fields(line: list[str], width: int, places: list[int]) -> Fields | str:
    """The fields of a line in the order of the model's columns, or what is wrong with it."""
    if len(line) != width:
        return f"has {len(line)} columns, the header has {width}"
    return [line[place] for place in places]


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
