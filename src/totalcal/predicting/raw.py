"""A CSV of raw columns, words and empty values among them, through the steps of a pipeline."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from totalcal.errors import InputError
from totalcal.predicting.inputs import Chunk, FileState, file_state, row_names
from totalcal.reading import csv_records, unreadable

if TYPE_CHECKING:
    from totalcal.files.steps import Column, Steps

_TRUTH = {"true": True, "1": True, "false": False, "0": False}


class RawTable:
    """A CSV with a header line, whose columns are found by name; its rows have passed the steps.

    A row whose values are of another kind, or that a step refuses, is a complaint.
    """

    def __init__(self, path: Path, steps: "Steps") -> None:
        if path.suffix.lower() != ".csv" or not path.is_file():
            raise InputError(f"a model behind a pipeline takes a .csv of its raw columns, not {path}.")
        if steps.columns is None:
            raise InputError(
                "the file does not say which columns its pipeline takes: it was fitted on a plain array, or "
                "as scikit-learn's own. Save it with example=rows of the data frame it was fitted on."
            )
        self.path, self.steps, self.columns = path, steps, steps.columns
        self.width = len(self.columns)

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        with (
            unreadable(self.path, "a table", "Save it as CSV in UTF-8."),
            self.path.open(newline="", encoding="utf-8-sig") as file,
        ):
            lines = csv_records(file, self.path)
            header = next(lines, [])
            missing = [name for name, _ in self.columns if name not in header]
            if missing:
                raise InputError(f"{self.path} lacks the column {missing[0]!r} ({len(missing)} are missing).")
            places = [header.index(name) for name, _ in self.columns]
            rows, row = islice(lines, skip, None), skip
            while block := list(islice(rows, size)):
                yield self._chunk(block, row, len(header), places)
                row += len(block)

    def state(self) -> list[FileState]:
        return [file_state(self.path, self.path.name)]

    def _chunk(self, block: list[list[str]], row: int, width: int, places: list[int]) -> Chunk:
        reasons: dict[int, str] = {}
        table: dict[int, list[Any]] = {}
        for place, fields in enumerate(block):
            try:
                if len(fields) != width:
                    raise ValueError(f"has {len(fields)} columns, the header has {width}")
                table[place] = [
                    _value(fields[at], column) for at, column in zip(places, self.columns, strict=True)
                ]
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
                reasons[next(iter(table))] = f"is refused by a step ({str(error).partition(chr(10))[0]})"
                return {}
        passed: dict[int, Any] = {}
        for place, row in table.items():
            passed |= self._passed({place: row}, reasons)
        return passed


def _as_table(rows: list[list[Any]]) -> Any:
    table = np.empty((len(rows), len(rows[0])), dtype=object)
    table[:] = rows
    return table


def _value(field: str, column: "Column") -> Any:
    """What a field says; an empty one is missing."""
    if not field.strip():
        return np.nan
    if column.kind == "word":
        return field
    try:
        return float(field) if column.kind == "number" else _TRUTH[field.strip().lower()]
    except (ValueError, KeyError):
        raise ValueError(
            f"has {field[:40]!r} in the column {column.name!r}, which holds {column.kind}s"
        ) from None
