"""`calibrate` and `report` from files: what the command line calls."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from totalcal.calibration.audit import Audit, audit
from totalcal.calibration.calibrate import calibrate, calibrate_probabilities
from totalcal.errors import InputError, printable
from totalcal.files.predicting.inputs import LABELS, input_names
from totalcal.files.predicting.tables import read_table
from totalcal.files.reading import npz_names, read_npz
from totalcal.files.saved import Model
from totalcal.files.user_nets import load_named, made_backbone
from totalcal.scores.outputs import read_outputs

_MODEL = ".totalcal"
_NPZ = ".npz"


def calibrate_files(
    given: Path | None,
    train: Path | None,
    held_out: Path | None,
    *,
    backbone: str | None = None,
    label: str = "label",
    alpha: float = 0.05,
    beta: float = 0.05,
    keep_rows: bool = True,
) -> Model:
    """Calibrate a saved model, a net of the user's own, or a file of probabilities.

    Args:
        given: A model file, or probabilities with labels (`read_outputs`); None for a net alone.
        train: Rows that the net was trained on: an .npz of `inputs` and `labels`, or a table.
        held_out: Rows that it was not trained on, likewise.
        backbone: `package.module:factory`: the user's own net, trained, or the one that the file needs.
        label: The column of a table that holds the labels.
        alpha: As in `calibrate`.
        beta: As in `calibrate`.
        keep_rows: As in `calibrate`.

    Returns:
        The calibrated model.

    Raises:
        InputError: If something is missing, or a file holds something else.
    """
    if given is not None and given.suffix.lower() != _MODEL:
        saved = read_outputs(given, label, needs_labels=True)
        if saved.labels is None or saved.kind != "probabilities" or saved.outputs.ndim != 2:
            raise InputError(f"{given} must hold probabilities, rows × classes, and labels.")
        labels = saved.labels if saved.classes is None else np.array(saved.classes)[saved.labels]
        return calibrate_probabilities(saved.outputs, labels, beta=beta, classes=saved.classes)
    if train is None or held_out is None:
        raise InputError(
            "a net is calibrated with the rows it was trained on and others: give --train and --held-out, an "
            ".npz of `inputs` and `labels` each, or a table."
        )
    if given is None and backbone is None:
        raise InputError("give a model file, a file of probabilities, or --backbone package.module:factory.")
    net: Any = made_backbone(str(backbone)) if given is None else load_named(given, backbone)
    rows = labelled_rows(train, label), labelled_rows(held_out, label)
    return calibrate(net, *rows, alpha=alpha, beta=beta, keep_rows=keep_rows)


def audit_files(
    model: Path,
    rows: Path,
    output: Path,
    *,
    backbone: str | None = None,
    label: str = "label",
    new: bool = False,
) -> Audit:
    """Write the audit of a file of rows, which the net was trained on if they have labels and are not `new`.

    Returns:
        The audit.
    """
    found = audit(load_named(model, backbone), *labelled_rows(rows, label, needed=False), seen=not new)
    found.save(output)
    return found


def report_files(
    model: Path,
    test: Path,
    ood: list[Path],
    output: Path,
    *,
    backbone: str | None = None,
    label: str = "label",
) -> str:
    """Write the report of a model file on files of rows; OOD sets are named by their files.

    Returns:
        The verdict in words.
    """
    saved = load_named(model, backbone)
    panel: dict[str, Any] = {}
    for path in ood:
        if (name := printable(path.stem)) in panel:
            raise InputError(f"two OOD sets are called {name!r}; give their files different names.")
        panel[name] = labelled_rows(path, label, needed=False)[0]
    report = saved.report(labelled_rows(test, label), panel)
    report.save(output)
    return report.verdict


def memorise_files(
    file: Path,
    rows: Path | None,
    output: Path,
    *,
    name: str | None = None,
    forget: str | None = None,
    backbone: str | None = None,
    label: str = "label",
) -> str:
    """Let a model file learn from labelled rows, or forget a name, and write it anew.

    Returns:
        What was learned, in words.

    Raises:
        InputError: If there is nothing to do, or the file is an export.
    """
    if file.suffix.lower() != _MODEL:
        raise InputError(f"{file} cannot learn: memorise into the {_MODEL} file, and export it again.")
    if (rows is None) == (forget is None):
        raise InputError("give rows to memorise, or --forget NAME.")
    model = load_named(file, backbone)
    if rows is None:
        model.forget(str(forget))
        words = f"forgot {forget}"
    else:
        words = str(model.memorise(*labelled_rows(rows, label), name))
    model.save(output)
    return words


def labelled_rows(path: str | os.PathLike[str], label: str = "label", needed: bool = True) -> tuple[Any, Any]:
    """Rows and labels of an .npz (`labels`, and `inputs` or several by name) or of a table with a column."""
    if Path(path).suffix.lower() == _NPZ:
        there = npz_names(path)
        inputs, labels = input_names(there), next((name for name in LABELS if name in there), None)
        if needed and labels is None:
            raise InputError(f"{path} must hold an array `labels`, but it holds {', '.join(there[:10])}.")
        arrays = read_npz(path, [*inputs.values(), *([labels] if labels else [])])
        parts = {name: arrays[member] for name, member in inputs.items()}
        rows: Any = parts.get("", tuple(parts.values()) if "0" in parts else parts)
        return rows, None if labels is None else arrays[labels]
    frame = read_table(Path(path))
    if label not in frame.columns:
        if needed:
            raise InputError(f"{path} has no column {label!r}: name the one of the labels, --label NAME.")
        return frame, None
    return frame.drop(columns=label), frame[label].to_numpy()
