"""A table of predictions past the monitor of a model file, in words and as a picture. Needs no torch."""

import csv
import hashlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import numpy.typing as npt

from totalcal.decisions.monitor import WITH_LABELS, Monitor, Status, label_scores
from totalcal.errors import InputError, MissingExtraError
from totalcal.files.container import read_container
from totalcal.files.predicting.tables import ColumnFile, opened_columns, record_batches, schema_of
from totalcal.files.reading import column_places, csv_records, number, open_regular

LABEL = "label"
_MODEL = "model"
_BLOCK = 100
_SOME_BYTES = 2**20
_TITLE = 90  # characters that fit above the picture


@dataclass(frozen=True)
class Watched:
    """What a monitor made of a table: its status at the end, and log10 of its capital along the way."""

    status: Status
    rows: list[int]
    log10_capital: dict[str, list[float]]
    level: float


def watch_file(predictions: Path, model: Path) -> Watched:
    """Feed a table that `totalcal predict` wrote to the monitor of the model file.

    Raises:
        InputError: If the file has no monitor, the table none of the scores that it watches, or rows that
            another model answered.
    """
    container = read_container(model)
    content = container.description.get("monitor")
    if content is None:
        raise InputError(
            f"{model} has no monitor. Calibrate it, which starts one: totalcal.calibrate(model, train, "
            "held_out), a net, an estimator or what totalcal.load gives; anew after memorise or forget."
        )
    monitor = Monitor.from_json(content)
    if not monitor.rows:
        monitor = monitor.for_another_stream(_seed_of(predictions))
    start = monitor.rows
    rows: list[int] = []
    capital: dict[str, list[float]] = {name: [] for name in monitor.detectors}
    for scores, accepted, predicted in _blocks(predictions, list(monitor.detectors), container.digest):
        status = monitor.update(scores, accepted, predicted)
        rows.append(status.rows - start)
        for name, history in capital.items():
            history.append(float(np.log10(max(status.capital[name], 1e-300))))
    level = float(np.log10(len(monitor.detectors) / monitor.false_alarms))
    return Watched(monitor.status, rows, capital, level)


def _seed_of(table: Path) -> int:
    """Each table breaks ties in its own way, and the same way each time."""
    if not table.is_file():
        return 0
    with table.open("rb") as file:
        return int.from_bytes(hashlib.sha256(file.read(_SOME_BYTES)).digest()[:7])


def check_figure(output: Path) -> None:
    """Before any work: whether a figure can be drawn there.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: Its ending is that of no picture, or there is no such folder.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "drawing a stream") from error
    kinds = Figure().canvas.get_supported_filetypes()
    if output.suffix.lower().removeprefix(".") not in kinds:
        raise InputError(f"{output} is no figure: its ending must be one of {', '.join(sorted(kinds))}.")
    if not output.parent.is_dir():
        raise InputError(f"there is no folder {output.parent} for the figure.")


def draw(watched: Watched, output: Path) -> None:
    """The capital of each score over the rows, and its ranks in tenths, which are even when all is well."""
    check_figure(output)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, history in watched.log10_capital.items():
        shares = watched.status.rank_shares[name]
        if not shares.any():  # no labels have come
            continue
        left.plot(watched.rows, history, label=name)
        right.step(np.arange(len(shares) + 1) / len(shares), [*shares, shares[-1]], where="post", label=name)
    left.axhline(watched.level, color="0.4", linestyle="--", label="alarm")
    left.set(xlabel="rows", ylabel="evidence of a shift, log10")
    right.axhline(0.1, color="0.4", linestyle="--")
    right.set(xlabel="rank among held-out rows (0: least familiar)", ylabel="share of rows", ylim=(0, None))
    left.legend(frameon=False)
    figure.suptitle("\n".join(wrap(str(watched.status), _TITLE)))
    figure.savefig(output, dpi=120)


_Block = tuple[dict[str, npt.NDArray[Any]], list[bool] | None, list[Any] | None]
"""Scores, which rows were accepted, and the classes predicted for them."""


def _blocks(path: Path, names: list[str], digest: str) -> Iterator[_Block]:
    if not path.is_file():
        raise InputError(f"there is no table {path}.")
    with _opened(path) as (columns, rows):
        known = [name for name in names if name in columns]
        by_label = WITH_LABELS & set(names) if LABEL in columns else frozenset()
        if not known and not by_label:
            raise InputError(
                f"{path} has none of the columns {', '.join(names)}: make it with totalcal predict."
            )
        column_places(path, columns, columns)  # none of them twice
        with _as_table(path):
            while block := list(islice(rows, _BLOCK)):
                _check_model(path, block, digest)
                predicted = [row["class"] for row in block] if "class" in columns else None
                yield _scores(path, block, known, by_label), _accepted(block), predicted


@contextmanager
def _opened(path: Path) -> Iterator[tuple[list[str], Iterator[dict[str, Any]]]]:
    """The columns of a table, and its rows by column: CSV, Parquet or Arrow."""
    if path.suffix.lower() in ColumnFile.KINDS:
        with opened_columns(path) as file:
            columns = list(schema_of(file).names)
            batches = record_batches(file, columns, _BLOCK, 0)
            yield columns, (row for batch in batches for row in batch.to_pylist())
        return
    with TextIOWrapper(open_regular(path), "utf-8-sig", newline="") as file:
        table = csv_records(file, path)
        with _as_table(path):
            columns = next(table, [])
        yield columns, (_by_column(path, columns, fields) for fields in table if fields)


def _by_column(path: Path, columns: list[str], fields: list[str]) -> dict[str, Any]:
    if len(fields) != len(columns):
        raise InputError(
            f"{path} has {len(columns)} columns, but a row of {len(fields)} values: it was cut or changed. "
            "Make it again with totalcal predict."
        )
    return dict(zip(columns, fields, strict=True))


@contextmanager
def _as_table(path: Path) -> Iterator[None]:
    try:
        yield
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"{path} is not a table in UTF-8 ({error}): make it with totalcal predict."
        ) from error


def _check_model(path: Path, block: list[dict[str, Any]], digest: str) -> None:
    """A row says which model answered it: the scores of another are not to be held against this one's."""
    found = (str(row[_MODEL]).partition(" ")[0] for row in block if row.get(_MODEL))
    other = next((each for each in found if each != digest), None)
    if other is not None:
        raise InputError(
            f"{path} has rows that the model {other[:40]} answered, not {digest}, whose monitor this is: "
            "name the file that it was made with, --model FILE."
        )


def _scores(
    path: Path, block: list[dict[str, Any]], known: list[str], by_label: Collection[str]
) -> dict[str, npt.NDArray[Any]]:
    try:
        found = {name: np.maximum([_number(row[name]) for row in block], 0.0) for name in known}
        if by_label:
            chosen = np.array([_number(row[f"p({row[LABEL]})"]) for row in block])
            classes = [name for name in block[0] if name.startswith("p(")]
            confidence = np.array([[_number(row[name]) for name in classes] for row in block]).max(1)
            told = label_scores(chosen, confidence)
            found |= {name: told[name] for name in by_label}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} has a value that is not a number, or a label that is not a class: {error}."
        ) from error
    return found


def _number(field: Any) -> float:
    return number(field) if isinstance(field, str) else float(field)


def _accepted(block: list[dict[str, Any]]) -> list[bool] | None:
    decisions = [row.get("decision") or "" for row in block]
    return [decision == "accept" for decision in decisions] if any(decisions) else None
