"""From a model file and inputs to a table of classes, probabilities, uncertainties and decisions.

The output grows a chunk at a time; after a kill it goes on from the last whole chunk.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from totalcal.errors import InputError, NotFiniteError
from totalcal.files.predicting.answers import Answers, SavedPredictor, opened
from totalcal.files.predicting.inputs import Array, Chunk, Complaint, Pictures
from totalcal.files.predicting.outputs import ColumnValues, ResumableOutput, format_of
from totalcal.files.whole_files import sha256_of

if TYPE_CHECKING:
    from totalcal.files.predicting.exported import ExportedModel
    from totalcal.types import Draws

_MOST_ROWS, _USUAL_ROWS = 4096, 256
_USUAL_NUMBERS, _MOST_NUMBERS = 1 << 16, 1 << 23


class PredictionRun(NamedTuple):
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
    draws: "Draws" = "auto",
    chunk_size: int | None = None,
    workers: int | None = None,
    strict: bool = False,
    backbone: str | None = None,
    expect: str | None = None,
    on_rows: Callable[[int], None] = lambda rows: None,
) -> PredictionRun:
    """A line for each row of `inputs`, in order; called again after a kill, it goes on where it was.

    Args:
        model: A file that `save` or `export` wrote.
        inputs: A table (.csv with a header, .parquet, .arrow, .feather), an .npz, a folder of images and
            sub-folders, or, for a model of images, a .csv whose column `path` names them.
        output: The table to write: Parquet or Arrow by its suffix, otherwise CSV. Rows that cannot be used
            stand in `output`.bad with their reason.
        draws: Of weights and memory, or "moments"; "auto" takes those of the file's gate, or without a gate
            the model's own (`default_draws`).
        chunk_size: Rows at a time; left out, 256 to 4096 by the size of a row, fewer for large pictures.
        workers: Processes that decode images; left out, one per core where there are many images.
        strict: Whether the first row that cannot be used ends the run.
        backbone: `package.module:factory` of your own net, where the model file asks for it.
        expect: The digest of the model that it has to be.
        on_rows: Is told of every chunk.

    Returns:
        How many rows there were.

    Raises:
        InputError: If there is nothing to read, the output is there already, or another process writes it;
            with `strict`, for a bad row.
        ModelFileError: If it is another model than the expected one.
        GateError: If `draws` are not those of the gate.
        MissingExtraError: For Parquet or Arrow without pyarrow.
    """
    predictor = opened(model, draws, backbone, expect)
    rows = predictor.rows(inputs, workers or 0)
    size = usual_chunk(rows.width) if chunk_size is None else chunk_size
    if isinstance(rows, Pictures) and workers is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if cores > 1 and "torch" in sys.modules:  # an exported model is run, perhaps where there is none
            rows.workers = min(cores, len(rows.names) // size // 2)
    probabilities = (f"p({name})" for name in predictor.classes)
    header = ["row", "class", *probabilities, *predictor.score_names, "decision", "reason", "model"]
    state = hashlib.sha256(repr(rows.state()).encode()).hexdigest()
    fingerprint = f"{sha256_of(model)} {state} {draws} {size}"
    with ResumableOutput(output, fingerprint, format_of(output, header, predictor.classes)) as file:
        before = file.rows
        on_rows(before)
        for chunk in rows.chunks(size, skip=before):
            columns, complaints = _answered(predictor, chunk)
            if strict and complaints:
                name, reason = complaints[0]
                raise InputError(f"{name} {reason}. Mend or remove it, or predict without --strict.")
            file.append(columns, complaints, chunk.rows)
            on_rows(chunk.rows)
    return PredictionRun(file.rows, file.rows - before, file.bad_rows, output)


def usual_chunk(width: int) -> int:
    """Rows at a time: many small ones, since every call of a model has its price; few that are large.

    >>> [usual_chunk(width) for width in (4, 20, 784, 3 * 32 * 32, 3 * 224 * 224)]
    [4096, 3276, 256, 256, 55]
    """
    width = max(width, 1)
    return max(1, min(_MOST_ROWS, max(_USUAL_ROWS, _USUAL_NUMBERS // width), _MOST_NUMBERS // width))


def _answered(
    by: "SavedPredictor | ExportedModel", chunk: Chunk
) -> tuple[list[ColumnValues], list[Complaint]]:
    """The columns of a chunk, and what is wrong with its bad rows: those without an answer are among them."""
    if not chunk.names:
        return [], chunk.complaints
    try:
        return _columns(chunk.names, by.answers(chunk.values), by.digest), chunk.complaints
    except NotFiniteError:  # anything else, such as a wrong shape, is no matter of single rows
        pass
    rest = Chunk.checked(chunk.names, chunk.values, _unanswerable(by.answers, chunk.values))
    columns = _columns(rest.names, by.answers(rest.values), by.digest) if rest.names else []
    return columns, chunk.complaints + rest.complaints


def _unanswerable(answer: Callable[[Array], Answers], values: Array, start: int = 0) -> dict[int, str]:
    """Rows that the model has no finite answer to, by halves."""
    try:
        answer(values)
    except NotFiniteError:
        if len(values) == 1:
            return {start: "has no answer: its numbers are too large for this model"}
        half = len(values) // 2
        first = _unanswerable(answer, values[:half], start)
        return first | _unanswerable(answer, values[half:], start + half)
    return {}


def _columns(names: list[str], found: Answers, digest: str) -> list[ColumnValues]:
    """One after the other, as the header names them; the last says of every row which model answered it."""
    model = [f"{digest} {found.made}"] * len(names)
    numbers = [*found.probabilities.T, *found.scores.values()]
    return [names, found.best, *numbers, found.decisions, found.reasons, model]
