"""`totalcal.export`: a model as one .onnx or .pt2, checked against the model before it is kept."""

import io
import logging
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from totalcal import __version__
from totalcal.errors import (
    ExportError,
    GateError,
    InputError,
    MissingExtraError,
    TotalcalError,
    UnknownNameError,
    UnreadableFileError,
)
from totalcal.files.exporting.program import Program, first_line, outputs_of, sets_of, traced
from totalcal.files.predicting.answers import check_draws, names_of_classes
from totalcal.files.predicting.exported import (
    KEY,
    ROWS,
    Description,
    ExportedBar,
    ExportedRows,
    open_exported,
    sealed,
)
from totalcal.files.predicting.inputs import Array, ArrayFile
from totalcal.files.saved import Model, load
from totalcal.files.user_nets import load_named
from totalcal.files.whole_files import whole_file
from totalcal.inputs import Inputs, checked_inputs, count, mapped, named, taken
from totalcal.models.process import TuringProcess
from totalcal.types import Draws, Sampling
from totalcal.uncertainties import P_VALUES, UNFAMILIARITIES

ExportFormat = Literal["onnx", "pt2"]

MEANINGS: Mapping[str, str] = {
    "probabilities": "p(class | row), rows × classes",
    "entropy": "of the probabilities, in nats: high where classes overlap or the domain is another",
    "mutual_information": "in nats, what knowing the model and the class probabilities would tell",
    "reducible": "variance that more data would reduce, summed over the classes",
    "irreducible": "variance that the model cannot know of this row, summed over the classes",
    "data": "variance from the overlap of the classes, summed over them",
    "negative_log_concentration": "minus the logarithm of the evidence; minus infinity for a point mass",
    "mutual_information_of_model": "the part of the mutual information that is due to weights and memory",
    "mutual_information_of_belief": "the part that is due to the belief over class probabilities",
    "unfamiliarity": "how unfamiliar the row is, 0 or more; the familiarity is its rank",
    "far_from_domain": "how far the row is from all that was seen; unlike_domain is its rank",
    "far_from_classes": "how unlike any class the row is; unlike_classes is its rank",
    "familiarity": "a conformal p-value in (0, 1]: the share of held-out rows at least as unfamiliar",
    "unlike_domain": "a conformal p-value: small for a row that is not from here",
    "unlike_classes": "a conformal p-value: small for a row that is of no class the model knows",
    "decision": "0 accepts; i is the verdict of the i-th bar of the gate",
    "answer": "the class of least expected cost, by its place, where mistakes cost differently",
    "set": "which classes cannot be ruled out: the true one is among them for a share `coverage` of inputs",
}
TOLERANCE = 1e-5
_TOLERANCES = {**dict.fromkeys(UNFAMILIARITIES, 0.1), **dict.fromkeys(P_VALUES, 0.05)}
"""All are in units of the held-out rows' spread, which in a net that tells few rows apart is a rounding."""

_STEPS = (*UNFAMILIARITIES, *P_VALUES, "decision", "answer", "set")
_EXAMPLES = 8
_FAR = 1e4
_LARGEST_ONNX = 2**31 - 2**20  # protobuf holds no more


class Exported(NamedTuple):
    """What was written, and how far it is from the model on the rows that it was checked with."""

    path: Path
    description: Description
    differences: dict[str, float]
    rows: int

    @property
    def largest_difference(self) -> float:
        """Of the outputs that are not steps."""
        return max(gap for name, gap in self.differences.items() if name not in _STEPS)


def export(
    model: Model | TuringProcess | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    to: ExportFormat | None = None,
    draws: Draws = "auto",
    seed: int = 0,
    example: Any = None,
    backbone: nn.Module | None = None,
) -> Exported:
    """Write a model as one program that runs without totalcal: in onnxruntime, or in torch alone.

    Inside are the preprocessing, the net, the memory's cells, the domain memory, the gate and the sets of
    classes; the draws of weights and memory are made here, once. The file is kept only if it agrees with
    the model.

    Args:
        model: A model file, what `load` gave, or a model. One that needs a context takes it from its file.
        path: Where to write.
        to: "onnx" or "pt2"; by the suffix of the path if not given.
        draws: How many draws of θ, 0 for means, "moments" for none; "auto" as for `Model.predict`.
        seed: What the draws are a function of.
        example: Some rows, two or more, if the model has no preprocessing that says what a row is.
        backbone: Your own net, where `model` is a file that asks for it.

    Returns:
        The path, what the file says of itself, and its largest difference from the model, by output.

    Raises:
        ExportError: If the model has no form as a program of its own: the message says why.
        GateError: If the gate was fitted with other draws.
        InputError: If nothing says what a row is, or fewer than two example rows do.
        UnknownNameError: If there is no such format.

    Example:
        >>> import tempfile, totalcal
        >>> net = totalcal.softmax(torch.nn.Linear(4, 3), num_classes=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = export(net, f"{folder}/model.pt2", example=torch.randn(8, 4))
        >>> list(written.description.outputs)[:2]
        ['probabilities', 'entropy']
    """
    target = Path(path)
    kind = to or target.suffix.removeprefix(".")
    if kind not in _WRITERS:
        raise UnknownNameError("format to export to", kind, _WRITERS)
    saved = _saved(model, backbone)
    if saved.steps is not None:
        raise ExportError(
            "the steps of a scikit-learn pipeline have no form in a program. Export its classifier alone, "
            "and apply the steps beforehand."
        )
    check_draws(saved, draws)
    sampling = _sampling(saved, draws, seed)
    rows = _example(saved, example)
    program = Program(saved, sampling, rows)
    description = _description(saved, program, rows, sampling)
    content = sealed(_WRITERS[kind](traced(program, rows), description))
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"draft.{kind}"
        draft.write_bytes(content)
        differences = _checked(draft, saved, sampling, rows)
    with whole_file(target) as file:
        file.write(content)
    return Exported(target, description, differences, count(rows))


def export_file(
    file: Path,
    output: Path | None = None,
    *,
    to: str | None = None,
    draws: Draws = "auto",
    seed: int = 0,
    example: Path | None = None,
    backbone: str | None = None,
) -> Exported:
    """`export` as the command line asks for it: all by name."""
    kind = to or (output.suffix.removeprefix(".") if output is not None else "onnx")
    target = file.with_suffix(f".{kind}") if output is None else output
    return export(
        load_named(file, backbone),
        target,
        to=kind,  # type: ignore[arg-type]
        draws=draws,
        seed=seed,
        example=None if example is None else _rows_of(example),
    )


def _rows_of(path: Path) -> Array:
    """The first rows of an .npz, as `totalcal predict` reads them."""
    first = next(ArrayFile(path).chunks(_EXAMPLES), None)
    if first is None or first.complaints:
        reason = (
            "no rows" if first is None else f"{first.complaints[0].name}, which {first.complaints[0].reason}"
        )
        raise InputError(f"the example rows must be sound, but {path} holds {reason}.")
    return first.values


def _saved(model: Any, backbone: nn.Module | None) -> Model:
    if isinstance(model, Model):
        return model.snapshot()
    if isinstance(model, TuringProcess):
        return Model(model).snapshot()
    if isinstance(model, str | os.PathLike):
        return load(model, backbone=backbone)
    raise ExportError(
        f"only a model of the family or its file can be exported, but got a {type(model).__name__}. The "
        "members of an ensemble and baselines are exported one by one, as the nets that they are."
    )


def _sampling(saved: Model, draws: Draws, seed: int) -> Sampling:
    """The draws and the seed that were asked for, or those of `Model.predict`."""
    fitted = saved.fitted_sampling
    if fitted is not None:
        draws, seed = fitted.draws if draws == "auto" else draws, seed or fitted.seed or 0
    if fitted is not None and fitted.seed not in (None, seed):
        raise GateError(
            f"the gate was fitted with draws of seed {fitted.seed}; its promise does not hold for seed "
            f"{seed}: leave the seed out."
        )
    return Sampling(saved.process.default_draws if draws == "auto" else draws, seed)


def _example(saved: Model, given: Any) -> Inputs:
    """A few rows as the user has them: to trace with, and to compare with the model."""
    if given is None and saved.preprocessing is not None:
        mean, scale = saved.preprocessing.mean, saved.preprocessing.scale
        noise = torch.randn(_EXAMPLES, *saved.preprocessing.shape, generator=torch.Generator().manual_seed(0))
        return mean + scale * noise.double()
    if given is None and saved.context is not None:
        given = saved.context.inputs
    if given is None:
        raise InputError(
            "nothing says what a row of this model is: it was saved without preprocessing. Give some rows: "
            "export(…, example=rows), or --example rows.npz."
        )
    rows = taken(checked_inputs(given), slice(0, _EXAMPLES))
    if count(rows) < 2:
        raise InputError("an export needs at least two example rows, but got one.")
    return rows.double() if saved.preprocessing is not None and isinstance(rows, Tensor) else rows


def _description(saved: Model, program: Program, example: Inputs, sampling: Sampling) -> Description:
    given = saved.preprocessing
    outputs = program(*named(example, ROWS).values())
    inputs = {
        name: {"dtype": str(part.dtype).removeprefix("torch."), "shape": list(part.shape[1:])}
        for name, part in named(example, ROWS).items()
    }
    return Description(
        classes=names_of_classes(saved),
        inputs=inputs,
        outputs={name: MEANINGS[name] for name in outputs},
        draws=sampling.draws,
        seed=sampling.seed or 0,
        rows=None if given is None else ExportedRows(given.shape, given.columns, given.pictures),
        bars=tuple(ExportedBar(**bar) for bar in saved.gate.as_json()["bars"]) if saved.gate else (),
        versions={"totalcal": __version__, "torch": torch.__version__},
        model=saved.digest,
        coverage=None if program.sets is None else program.sets.coverage,
    )


def _as_pt2(graph: ExportedProgram, description: Description) -> bytes:
    content = io.BytesIO()
    with _silent():
        torch.export.save(graph, content, extra_files={KEY: description.to_json()})
    return content.getvalue()


def _as_onnx(graph: ExportedProgram, description: Description) -> bytes:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(str(error.name), "export", "writing an .onnx") from error
    inputs, outputs = list(description.inputs), list(description.outputs)
    try:
        with _silent():
            written = torch.onnx.export(
                graph, dynamo=True, verbose=False, input_names=inputs, output_names=outputs
            )
    except Exception as problem:  # the exporter's own errors have no common root
        raise ExportError(f"it has no form in ONNX ({first_line(problem)}). Try --to pt2.") from problem
    assert written is not None
    written.model.metadata_props[KEY] = description.to_json()
    model = written.model_proto
    if model.ByteSize() > _LARGEST_ONNX:
        raise ExportError(
            f"the program has {model.ByteSize()} bytes with its draws, and one .onnx holds 2 GB. Use fewer "
            "draws, means (0), or --to pt2."
        )
    return bytes(model.SerializeToString())


_WRITERS: Mapping[str, Callable[[ExportedProgram, Description], bytes]] = {"onnx": _as_onnx, "pt2": _as_pt2}


@contextmanager
def _silent() -> Iterator[None]:
    """Without the exporter's advice to its developers."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _checked(path: Path, saved: Model, sampling: Sampling, example: Inputs) -> dict[str, float]:
    """How far the program in a file is from the model, output by output, on eight rows and on one.

    Ranks and decisions are steps: rounding may take a row over one, but not most rows.
    """
    try:
        exported, differences = open_exported(path), dict.fromkeys(MEANINGS, 0.0)
    except UnreadableFileError as problem:
        raise ExportError(
            f"onnxruntime has no kernels for this model ({first_line(problem)}). Try --to pt2."
            if path.suffix == ".onnx"
            else f"torch cannot read the program again ({first_line(problem)}): its steps depend on values."
        ) from problem

    def both(rows: Inputs) -> Iterator[tuple[str, Array, Array]]:
        prediction = saved.predict(rows, draws=sampling.draws, seed=sampling.seed or 0)
        found = exported.predict({name: part.numpy() for name, part in named(rows, ROWS).items()})
        expected = outputs_of(prediction, saved.gate, sets_of(saved, sampling))
        return ((name, found[name], values.numpy()) for name, values in expected.items())

    for rows in (example, taken(example, slice(0, 1))):
        for name, found, expected in both(rows):
            gaps = _gaps(found, expected)
            gap = np.median(gaps) if name in _STEPS else gaps.max()
            differences[name] = max(differences[name], float(gap))
    far = mapped(lambda part: _FAR * part if part.is_floating_point() else part, example)
    with suppress(TotalcalError):  # too far for the model itself
        for name, found, expected in both(far):
            is_lost = ~np.isfinite(found) & ~np.isnan(expected) & (found != expected)
            if is_lost.any():  # not finite where the model is
                differences[name] = math.nan
    worst = max(differences, key=lambda name: differences[name] / _TOLERANCES.get(name, TOLERANCE))
    if not differences[worst] <= _TOLERANCES.get(worst, TOLERANCE):
        raise ExportError(
            f"the program does not do what the model does: the {worst} is off by {differences[worst]:.2g}. A "
            "net that draws in evaluation mode, or that looks at the values or the number of its rows, has "
            "no fixed program."
        )
    return {name: gap for name, gap in differences.items() if name in exported.description.outputs}


def _gaps(found: Array, expected: Array) -> Array:
    """|a − b|, relative where numbers are large; equal infinities do not differ."""
    with np.errstate(invalid="ignore"):
        gaps = np.abs(found.astype(np.float64) - expected) / np.maximum(1, np.abs(expected))
    return np.where(found == expected, 0.0, gaps)
