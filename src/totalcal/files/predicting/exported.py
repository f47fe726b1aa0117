"""An exported model, as `totalcal export` wrote it: what it says of rows, without torch where it is ONNX."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from totalcal.data.preprocessing import PictureSteps
from totalcal.errors import (
    ContextError,
    GateError,
    InputError,
    MissingExtraError,
    ModelFileError,
    NotFiniteError,
    ShapeError,
    UnreadableFileError,
)
from totalcal.files.predicting.answers import Answers, made_by
from totalcal.files.predicting.inputs import Array, FileRows, rows_of
from totalcal.files.reading import open_regular, parse_json, unreadable
from totalcal.uncertainties import (
    CONFIDENCE,
    EXPECTED_COST,
    FAMILIARITY,
    P_VALUES,
    UNCERTAINTIES,
    UNFAMILIARITIES,
    how_unlike,
    why_rejected,
)

KEY = "totalcal"
"""What the description is called in a file: a metadata entry of an .onnx, an extra file of a .pt2."""

ROWS = "inputs"
"""What a program's input is called; several are called `inputs/NAME`."""

FORMAT = 1
_SEAL, _DIGITS = b"totalcal sha256 ", 64
_SEAL_BYTES = len(_SEAL) + _DIGITS
_REMEDY = "Export the model again: totalcal export FILE."


class ExportedRows(NamedTuple):
    """What a row is, for whoever reads rows: as in `totalcal.Preprocessing`, whose arithmetic is inside."""

    shape: tuple[int, ...]
    columns: tuple[str, ...] | None = None
    pictures: PictureSteps | None = None


class ExportedBar(NamedTuple):
    """A bar of the gate, as `totalcal.decisions.Bar`; None is a threshold that nothing passes over."""

    score: str
    threshold: float | None
    verdict: str
    by_class: list[float | None] | None = None


@dataclass(frozen=True)
class Description:
    """What a file says of itself, in plain values.

    Attributes:
        classes: The names of the columns of `probabilities`.
        inputs: Type and shape of a row by the name of the input.
        outputs: What each output means.
        draws: How many draws the program makes of weights and memory; 0 for means, or "moments".
        seed: What these draws are a function of.
        rows: What a row is, if the model file said so.
        bars: Those of the gate; decision i is the verdict of the i-th, 0 accepts.
        versions: Of what wrote the file.
        model: The digest of the model that it was made from.
        coverage: How often a `set` holds the true class, if the program gives sets.
    """

    classes: tuple[Any, ...]
    inputs: dict[str, dict[str, Any]]
    outputs: dict[str, str]
    draws: int | str
    seed: int
    rows: ExportedRows | None = None
    bars: tuple[ExportedBar, ...] = ()
    versions: dict[str, str] | None = None
    model: str = ""
    coverage: float | None = None

    def summary(self) -> list[tuple[str, str]]:
        """Pairs of a heading and what stands under it."""
        bars = [f"{bar.score} {bar.threshold}: {bar.verdict}" for bar in self.bars]
        return [
            ("digest", self.model),
            ("classes", ", ".join(map(str, self.classes))),
            (
                "inputs",
                ", ".join(f"{name} {each['dtype']} {each['shape']}" for name, each in self.inputs.items()),
            ),
            ("outputs", ", ".join(self.outputs)),
            ("predictions", made_by(self.draws, self.seed)),
            ("gate", "; ".join(bars) or "none: every prediction is accepted"),
            ("sets", "none" if self.coverage is None else f"hold the true class for {self.coverage:.0%}"),
            ("written by", ", ".join(f"{name} {each}" for name, each in (self.versions or {}).items())),
        ]

    def to_json(self) -> str:
        rows = self.rows and self.rows._asdict() | {
            "pictures": self.rows.pictures and self.rows.pictures.as_json()
        }
        plain = asdict(self) | {"rows": rows, "bars": [bar._asdict() for bar in self.bars]}
        return json.dumps({"format": FORMAT, **plain}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """What a file says, or why it cannot be used."""
        content = parse_json(text, where)
        with unreadable(where, "an exported model", _REMEDY):
            if content["format"] > FORMAT:
                raise ModelFileError(f"{where} is of a newer format of totalcal: update totalcal.")
            rows = content["rows"]
            return cls(
                tuple(content["classes"]),
                dict(content["inputs"]),
                dict(content["outputs"]),
                content["draws"],
                int(content["seed"]),
                rows
                and ExportedRows(
                    tuple(rows["shape"]),
                    rows["columns"] and tuple(rows["columns"]),
                    rows["pictures"] and PictureSteps.from_json(rows["pictures"]),
                ),
                tuple(ExportedBar(**bar) for bar in content["bars"]),
                content["versions"],
                str(content["model"]),
                content["coverage"],
            )


@dataclass(frozen=True)
class ExportedModel:
    """A program with its description: rows in, answers out.

    Attributes:
        description: What the file says of itself.
        run: From inputs by name to outputs by name.
    """

    description: Description
    run: Callable[[Mapping[str, Array]], dict[str, Array]]

    @property
    def classes(self) -> tuple[Any, ...]:
        return self.description.classes

    @property
    def digest(self) -> str:
        return self.description.model

    @property
    def score_names(self) -> tuple[str, ...]:
        known = (*UNCERTAINTIES, *UNFAMILIARITIES, *P_VALUES)
        return tuple(name for name in known if name in self.description.outputs)

    def rows(self, inputs: Path, workers: int) -> FileRows:
        return rows_of(inputs, self.description.rows, manifests=True, workers=workers)

    def predict(
        self, rows: Any, *, draws: int | str = "auto", seed: int = 0, context: Any = None
    ) -> dict[str, Array]:
        """The outputs for rows as the user has them, as arrays: there may be no torch here.

        Args:
            rows: An array, or several by name.
            draws: "auto", or those that the program was made with.
            seed: The program's own, where draws are asked for by number.
            context: None: what a model needs of it is in the program.

        Raises:
            GateError: Other draws are asked for than the program makes.
            ContextError: A context was given.
            InputError, ShapeError: The rows are not those that the program takes.
        """
        self.check_draws(draws, seed)
        if context is not None:
            raise ContextError("an exported model takes no context: it has its own. Export it with another.")
        wanted, fields = self.description.inputs, getattr(getattr(rows, "dtype", None), "names", None)
        given: Mapping[str, Array] = rows if isinstance(rows, Mapping) else {next(iter(wanted)): rows}
        if fields:
            given = {f"{ROWS}/{name}": rows[name].copy() for name in fields}
        if given.keys() != wanted.keys():
            raise InputError(f"the model takes {', '.join(wanted)}, but got {', '.join(given)}.")
        arrays = {name: np.ascontiguousarray(given[name], wanted[name]["dtype"]) for name in wanted}
        for name, array in arrays.items():
            if list(array.shape[1:]) != list(wanted[name]["shape"]):
                which = "" if len(wanted) == 1 else f" in {name}"
                raise ShapeError(
                    f"the model takes rows of shape {tuple(wanted[name]['shape'])}{which}, but these have "
                    f"{array.shape[1:]}."
                )
        return self.run(arrays)

    def answers(self, rows: Array) -> Answers:
        """What a table or a service says of the rows."""
        found = self.predict(rows)
        broken = np.isnan(found["probabilities"]).any(1)
        if broken.any():
            raise NotFiniteError(
                f"{int(broken.sum())} of {len(rows)} predictions are not finite, the first is that of row "
                f"{int(broken.argmax())}: its numbers are too large for this model."
            )
        decisions = found.get("decision")
        verdicts, reasons = [""] * len(rows), [""] * len(rows)
        if decisions is not None:
            bars = [None, *self.description.bars]
            verdicts = ["accept" if (bar := bars[place]) is None else bar.verdict for place in decisions]
            reasons = [self._reason(bars[place], found, row) for row, place in enumerate(decisions)]
        return Answers(
            self.classes,
            found["probabilities"],
            {name: found[name] for name in self.score_names},
            verdicts,
            reasons,
            made_by(self.description.draws, self.description.seed),
            found.get("answer"),
        )

    def check_draws(self, draws: int | str, seed: int | None = None) -> None:
        """Before any work: draws are made when a model is exported, and cannot be chosen any more."""
        own = self.description
        is_other_seed = isinstance(draws, int) and draws > 0 and seed not in (None, own.seed)
        if draws not in ("auto", own.draws) or is_other_seed:
            raise GateError(
                f"the model was exported {made_by(own.draws, own.seed)}, and {made_by(draws, seed or 0)} was "
                "asked for. Leave --draws out, or export it again with --draws."
            )

    @staticmethod
    def _reason(bar: ExportedBar | None, found: Mapping[str, Array], row: int) -> str:
        if bar is None:
            return ""
        probabilities = found["probabilities"][row]
        predicted = int(probabilities.argmax())
        by_class = [] if bar.by_class is None else bar.by_class
        limit = by_class[predicted] if predicted < len(by_class) else bar.threshold
        own = {CONFIDENCE: probabilities.max(), EXPECTED_COST: np.nan}  # of what the program has no output
        value = own[bar.score] if bar.score in own else found[bar.score][row]
        if limit is None:
            return ""
        why = why_rejected(bar.score, float(value), limit)
        if bar.score == FAMILIARITY:
            return f"{why}: {how_unlike(*(float(found[name][row]) for name in P_VALUES[1:]))}"
        return why


def open_exported(path: Path) -> ExportedModel:
    """The model of an .onnx or a .pt2.

    Raises:
        ModelFileError: If there is no such file.
        UnreadableFileError: If the file is damaged, or `totalcal export` did not write it.
        MissingExtraError: If what runs it is not installed.
    """
    if not path.is_file():
        raise ModelFileError(f"there is no model file {path}.")
    _check_seal(path)
    return (_open_onnx if path.suffix == ".onnx" else _open_pt2)(path)


def sealed(content: bytes) -> bytes:
    """A program with a checksum of all of it at its end, where neither onnxruntime nor torch looks.

    In an .onnx it is a field that no version knows, in a .pt2 the comment of the archive. Both formats by
    themselves read a changed weight as it stands.
    """
    if content.startswith(b"PK"):  # the archive's last two bytes are the length of its comment, so far none
        body = content[:-2] + _SEAL_BYTES.to_bytes(2, "little") + _SEAL
    else:  # field 4095, of so many bytes
        body = content + b"\xfa\xff\x01" + bytes([_SEAL_BYTES]) + _SEAL
    return body + hashlib.sha256(body).hexdigest().encode()


def _check_seal(path: Path) -> None:
    found, length = hashlib.sha256(), path.stat().st_size - _DIGITS
    with unreadable(path, "an exported model", _REMEDY), open_regular(path) as file:
        while block := file.read(min(1 << 20, max(length - file.tell(), 0))):
            found.update(block)
        digits = file.read()
    if digits != found.hexdigest().encode():
        raise UnreadableFileError(
            f"{path} is damaged, or was changed since it was exported: its checksum does not match. {_REMEDY}"
        )


def _open_onnx(path: Path) -> ExportedModel:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("onnxruntime", "export", f"running {path.name}") from error
    with unreadable(path, "an .onnx", _REMEDY):
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        description = _described(session.get_modelmeta().custom_metadata_map.get(KEY), path)
    names = [output.name for output in session.get_outputs()]

    def run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return dict(zip(names, session.run(None, dict(arrays)), strict=True))

    return ExportedModel(description, run)


def _open_pt2(path: Path) -> ExportedModel:
    import torch

    extra = {KEY: ""}
    with unreadable(path, "a .pt2", _REMEDY):
        program = torch.export.load(str(path), extra_files=extra).module()
        description = _described(extra[KEY], path)

    def run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        with torch.no_grad():
            found = program(*(torch.from_numpy(array) for array in arrays.values()))
        return {name: values.numpy() for name, values in found.items()}

    return ExportedModel(description, run)


def _described(text: str | None, path: Path) -> Description:
    if not text:
        raise ModelFileError(f"{path} has no description of totalcal in it. {_REMEDY}")
    return Description.from_json(text, str(path))
