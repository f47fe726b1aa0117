"""Outputs that any framework saved: an .npz of named arrays, a table, or an .npy of columns.

A single column of probabilities is that of the positive class of two.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from totalcal.data.preprocessing import numbers
from totalcal.errors import InputError, LabelError, ShapeError
from totalcal.files.budget import room
from totalcal.files.predicting.tables import read_table
from totalcal.files.reading import npz_names, npz_shapes, read_npy, read_npz
from totalcal.scores.arrays import class_numbers
from totalcal.scores.external import OutputKind

KINDS: tuple[OutputKind, ...] = get_args(OutputKind)
_LABELS = "labels"
_TABLES = (".csv", ".parquet")


class SavedOutputs(NamedTuple):
    """The content of a file: outputs n × K or draws × n × K, what they are, and labels if there are any.

    Labels are class numbers, whether the file has them so or as names; `classes` are these names, if known.
    """

    outputs: npt.NDArray[Any]
    kind: OutputKind
    labels: npt.NDArray[Any] | None
    classes: tuple[Any, ...] | None = None


def read_outputs(
    path: str | os.PathLike[str], label: str = "label", *, needs_labels: bool = False
) -> SavedOutputs:
    """Read outputs and, if they are there, labels.

    Args:
        path: An .npz with exactly one of the kinds of output, and `labels`; a .csv or .parquet with a column
            of probabilities for each class, or one of the positive class, and one of labels; an .npy of such
            columns, the last of which is the labels, where it holds whole numbers.
        label: The column of a table that holds the labels.
        needs_labels: Whether a file without labels is refused.

    Returns:
        Outputs with a column for each class.

    Raises:
        InputError: If the file holds something else.
        LabelError: If labels are not classes.
        ShapeError: If outputs are no rows, or as many labels as rows are not there.
        MissingExtraError: For a table, without pandas.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/scores.npy", [[0.75, 1], [0.5, 0]])
        ...     read_outputs(f"{folder}/scores.npy").outputs
        array([[0.25, 0.75],
               [0.5 , 0.5 ]])
    """
    ending = Path(path).suffix.lower()
    if ending in (*_TABLES, ".npy"):
        table = _of_table(Path(path), label) if ending in _TABLES else _of_columns(Path(path))
        labelled = None if table.labels is None else table.labels.shape
        _check_labels(path, table.outputs.shape, labelled, needs_labels)
        return table
    shapes = npz_shapes(path, (*KINDS, _LABELS, "classes"))
    kinds: list[OutputKind] = [kind for kind in KINDS if kind in shapes]
    if len(kinds) != 1:
        found = ", ".join(npz_names(path)) or "nothing"
        raise InputError(f"{path} must hold exactly one of {', '.join(KINDS)}, but it holds {found}.")
    _check_labels(path, shapes[kinds[0]], shapes.get(_LABELS), needs_labels)  # before anything large is read
    arrays = read_npz(path, list(shapes))
    outputs, labels, names = arrays[kinds[0]], arrays.get(_LABELS), arrays.get("classes")
    if outputs.dtype.kind not in "biuf":
        raise InputError(f"{path} holds {kinds[0]} of the type {outputs.dtype}, which are no real numbers.")
    if kinds[0] == "probabilities":
        outputs = both_columns(outputs)
    if labels is None or names is None:
        return SavedOutputs(outputs, kinds[0], labels)
    if names.shape != outputs.shape[-1:]:
        raise ShapeError(f"{path} has {outputs.shape[-1]} columns, but {names.size} names in `classes`.")
    return SavedOutputs(outputs, kinds[0], class_numbers(labels, names.tolist()), tuple(names.tolist()))


def _check_labels(
    path: str | os.PathLike[str], shape: tuple[int, ...], labels: tuple[int, ...] | None, needed: bool
) -> None:
    if needed and labels is None:
        raise InputError(
            f"{path} holds no `{_LABELS}`, and a test set needs them: an array of an .npz, or a column of a "
            "table (--label NAME)."
        )
    rows = shape[-2:-1] if len(shape) > 1 else shape
    if not rows or (labels is not None and labels != rows):
        raise ShapeError(f"{path} holds outputs of shape {shape} and labels of shape {labels}.")


def both_columns(probabilities: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Those of two classes, where there is one number per row: that of the positive class.

    >>> both_columns(np.array([0.25, 1.0]))
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    if probabilities.ndim == 2 and probabilities.shape[1] == 1:
        probabilities = probabilities[:, 0]
    if probabilities.ndim != 1:
        return probabilities
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise InputError("the probabilities of the positive class must lie between 0 and 1.")
    return np.stack([1 - probabilities, probabilities], 1)


def _of_table(path: Path, label: str) -> SavedOutputs:
    from pandas import to_numeric

    frame = read_table(path)
    given = frame.drop(columns=label) if label in frame.columns else frame
    strange = [str(name) for name in given.columns if given[name].dtype.kind not in "fiu"]
    for name in given.columns:
        if str(name) in strange and to_numeric(given[name], errors="coerce").notna().any():
            numbers(given[[name]], [str(name)])  # of a column of numbers it names the first that is none
    if strange or not len(given.columns):
        raise InputError(
            f"{path} must hold probabilities and a column {label!r}, but it holds "
            f"{', '.join(strange) or 'no numbers'}. Leave out what is neither, or name the labels: "
            "--label NAME."
        )
    names = tuple(map(str, given.columns))
    outputs = both_columns(numbers(given, names))
    if label not in frame.columns:
        return SavedOutputs(outputs, "probabilities", None, names if len(names) > 1 else None)
    labels = frame[label].to_numpy()
    if len(names) == 1:
        return _of_two(path, outputs, labels, names[0])
    words = np.array([str(each) for each in labels])
    if set(words) <= set(names):
        return SavedOutputs(outputs, "probabilities", class_numbers(words, names), names)
    if labels.dtype.kind not in "biuf":
        unknown = next(str(word) for word in words if word not in names)
        raise LabelError(
            f"the column {label!r} of {path} holds {unknown!r}, which is none of the columns of "
            f"probabilities: {', '.join(names[:5])}{', …' if len(names) > 5 else ''}."
        )
    return SavedOutputs(outputs, "probabilities", labels)


def _of_two(path: Path, outputs: npt.NDArray[Any], labels: npt.NDArray[Any], column: str) -> SavedOutputs:
    """Labels 0 and 1, true and false, or two names, of which the positive one is that of the column."""
    if labels.dtype.kind in "biuf" and np.isin(labels, (0, 1)).all():
        return SavedOutputs(outputs, "probabilities", labels.astype(np.int64))
    found = sorted(set(map(str, labels)))
    if len(found) != 2 or column not in found:
        raise LabelError(
            f"{path} has one column of probabilities, {column}, so its labels must be 0 and 1, or two "
            f"names of which one is {column}; but they are {', '.join(found[:5])}."
        )
    names = (next(name for name in found if name != column), column)
    numbers = class_numbers(np.array(list(map(str, labels))), names)
    return SavedOutputs(outputs, "probabilities", numbers, names)


def _of_columns(path: Path) -> SavedOutputs:
    columns = read_npy(path, room() // 4)
    if columns.dtype.kind not in "fiu" or columns.ndim not in (1, 2) or not columns.size:
        raise InputError(f"{path} holds {columns.dtype} of shape {columns.shape}, not columns of numbers.")
    if columns.ndim == 1 or columns.shape[1] == 1:
        return SavedOutputs(both_columns(columns.astype(np.float64)), "probabilities", None)
    last = columns[:, -1]
    if (last != last.round()).any():
        return SavedOutputs(columns, "probabilities", None)
    outputs = both_columns(columns[:, :-1].astype(np.float64))
    return SavedOutputs(outputs, "probabilities", last.astype(np.int64))
