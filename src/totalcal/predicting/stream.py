"""From a model file and inputs to a CSV of classes, probabilities, uncertainties and decisions."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from totalcal.files.saved import SavedModel, load
from totalcal.predicting.inputs import Chunk, image_files, rows_of
from totalcal.predicting.output import ResumableOutput
from totalcal.rejection import UNCERTAINTIES, uncertainty


class Summary(NamedTuple):
    """What a run of predictions did: rows read in all, rows of this call, and the files it left."""

    rows: int
    rows_now: int
    bad_rows: int
    output: Path


def predict_file(
    model: Path,
    inputs: Path,
    output: Path,
    *,
    draws: int = 10,
    chunk_size: int = 256,
    on_rows: Callable[[int], None] = lambda rows: None,
) -> Summary:
    """A line for each row of `inputs`, in order; called again after a kill, it goes on where it was.

    Rows that cannot be used stand in `output`.bad with their reason. `on_rows` is told of every chunk.
    """
    saved = load(model)
    rows = rows_of(inputs, saved.preprocessing)
    classes = saved.classes or tuple(range(saved.model.num_classes))
    header = ["row", "class", *(f"p({name})" for name in classes), *UNCERTAINTIES, "decision", "reason"]
    fingerprint = f"{_digest(model)} {_state(inputs)} {draws} {chunk_size}"
    bad_rows = 0
    with ResumableOutput(output, fingerprint, header) as file:
        before = file.rows
        on_rows(before)
        for chunk in rows.chunks(chunk_size, skip=before):
            file.append(_lines(saved, classes, chunk, draws), chunk.complaints, chunk.rows)
            bad_rows += len(chunk.complaints)
            on_rows(chunk.rows)
    return Summary(file.rows, file.rows - before, bad_rows, output)


def _lines(saved: SavedModel, classes: tuple[object, ...], chunk: Chunk, draws: int) -> list[list[object]]:
    if not chunk.names:
        return []
    prediction = saved.predict(np.stack(chunk.values), draws)
    probabilities = prediction.probabilities.numpy()
    columns = [uncertainty(prediction, name) for name in UNCERTAINTIES]
    decisions = None if saved.gate is None else saved.gate(prediction)
    return [
        [
            name,
            classes[int(probabilities[i].argmax())],
            *(f"{p:.6g}" for p in probabilities[i]),
            *(f"{column[i]:.6g}" for column in columns),
            *(("", "") if decisions is None else (decisions.verdicts[i], decisions.reasons[i])),
        ]
        for i, name in enumerate(chunk.names)
    ]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _state(inputs: Path) -> str:
    """Changes when the inputs do: size and time of a file, or of all images of a folder."""
    files = image_files(inputs) if inputs.is_dir() else [inputs]
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr(stats).encode()).hexdigest()
