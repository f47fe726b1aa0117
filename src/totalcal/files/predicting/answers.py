"""What a saved model says of rows: the one way from rows to answers, for tables and for the service.

`Answers` themselves know no torch: whatever gives them can be written.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from totalcal.errors import GateError, InputError, TotalcalError
from totalcal.files.container import check_digest, read_container
from totalcal.files.predicting.inputs import FileRows, rows_of
from totalcal.files.predicting.raw import RawTable
from totalcal.uncertainties import P_VALUES, UNCERTAINTIES, UNFAMILIARITIES, uncertainty

if TYPE_CHECKING:
    from totalcal.files.saved import Model
    from totalcal.files.steps import Steps
    from totalcal.types import Draws, Predictive

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Answers:
    """One entry per row; a decision and its reason are empty where there is no gate, or no reason.

    Attributes:
        classes: The names of the columns of `probabilities`.
        probabilities: Rows × classes.
        scores: Uncertainties by name, `unfamiliarity` among them where the model remembers its domain.
        p_values: `familiarity`, `unlike_domain` and `unlike_classes`; empty without such a memory.
        decisions: The gate's verdict.
        reasons: Why.
        made: By which draws.
        chosen: The places of the answers, where costs choose another than the most probable class.
    """

    classes: tuple[Any, ...]
    probabilities: Floats
    scores: dict[str, Floats]
    p_values: dict[str, Floats]
    decisions: list[str]
    reasons: list[str]
    made: str
    chosen: Integers | None = None

    @property
    def best(self) -> list[Any]:
        """The answer to each row, by name."""
        places = self.probabilities.argmax(1) if self.chosen is None else self.chosen
        return [self.classes[place] for place in places]

    def rows(self, start: int, stop: int) -> "Answers":
        """Some of the rows."""
        chosen = slice(start, stop)
        return Answers(
            self.classes,
            self.probabilities[chosen],
            {name: values[chosen] for name, values in self.scores.items()},
            {name: values[chosen] for name, values in self.p_values.items()},
            self.decisions[chosen],
            self.reasons[chosen],
            self.made,
            None if self.chosen is None else self.chosen[chosen],
        )


class FilePredictor(Protocol):
    """What rows of any kind are answered by: a saved model with its draws, or an exported program."""

    @property
    def classes(self) -> tuple[Any, ...]: ...

    @property
    def score_names(self) -> tuple[str, ...]: ...

    @property
    def digest(self) -> str:
        """What names the model."""

    def rows(self, inputs: Path, workers: int) -> FileRows:
        """The rows of a file or folder, with so many processes to decode pictures."""

    def answers(self, rows: npt.NDArray[Any]) -> Answers: ...


@dataclass(frozen=True)
class FilePredictorWithDraws:
    """A saved model that answers with so many draws, or with those of its gate, rows that passed `steps`."""

    saved: "Model"
    digest: str
    draws: "Draws" = "auto"
    steps: "Steps | None" = None

    @property
    def classes(self) -> tuple[Any, ...]:
        return names_of_classes(self.saved)

    @property
    def score_names(self) -> tuple[str, ...]:
        return score_names(self.saved)

    def rows(self, inputs: Path, workers: int) -> FileRows:
        if self.steps is None:
            return rows_of(inputs, self.saved.preprocessing, manifests=True, workers=workers)
        given = self.saved.preprocessing
        return RawTable(inputs, self.steps, 0 if given is None else math.prod(given.shape))

    def answers(self, rows: npt.NDArray[Any]) -> Answers:
        return answers(self.saved, rows, self.draws)


def opened(
    file: Path, draws: "Draws" = "auto", backbone: str | None = None, expect: str | None = None
) -> FilePredictor:
    """What answers by a model file: torch and totalcal, or for an .onnx onnxruntime alone.

    Args:
        file: What `totalcal.save` or `totalcal export` wrote.
        draws: Of weights and memory; "auto" are those of the gate, or else the model's own.
        backbone: `package.module:factory`, the user's own net where the file asks for it.
        expect: The digest of the model that it has to be, or the beginning of it.

    Raises:
        ModelFileError: If it is another model than the expected one.
        GateError: If the gate, or the exported program, has other draws.
        InputError: If a backbone is given for an exported program, which holds its own.
    """
    from totalcal.files.predicting.exported import SUFFIXES, open_exported

    if file.suffix in SUFFIXES:
        if backbone is not None:
            raise InputError(f"{file} is a program of its own and takes no --backbone: leave it out.")
        exported = open_exported(file)
        check_digest(exported.digest, expect, file)
        exported.check_draws(draws)
        return exported
    from totalcal.files.user_nets import load_named

    digest = read_container(file).digest
    check_digest(digest, expect, file)
    saved = load_named(file, backbone)
    check_draws(saved, draws)
    # The reader takes the steps, to name the rows that cannot.
    return FilePredictorWithDraws(replace(saved, steps=None), digest, draws, saved.steps)


def names_of_classes(saved: "Model") -> tuple[Any, ...]:
    """The names of the classes that the file has, or else their numbers."""
    return saved.classes or tuple(range(saved.process.num_classes))


def score_names(saved: "Model") -> tuple[str, ...]:
    """The uncertainties that an answer of this model has, in the order of a table."""
    return (*UNCERTAINTIES, *UNFAMILIARITIES) if saved.process.domain.taps else tuple(UNCERTAINTIES)


def p_value_names(saved: "Model") -> tuple[str, ...]:
    """The p-values that an answer of this model has."""
    return P_VALUES if saved.process.domain.taps else ()


def answers(
    saved: "Model", rows: Sequence[npt.NDArray[Any]] | npt.NDArray[Any], draws: "Draws" = "auto"
) -> Answers:
    """The answers to rows as the user has them, with the draws of the gate or of the user."""
    stacked = rows if isinstance(rows, np.ndarray) else np.stack(rows)
    try:
        prediction = saved.predict(stacked, draws=draws)
    except TotalcalError:
        raise
    except (RuntimeError, ValueError, TypeError, LookupError) as error:  # a net says in its own words
        raise InputError(f"the model cannot take these rows: {str(error)[:300]}") from error
    verdicts, reasons = _decisions(saved, prediction)
    probabilities = prediction.probabilities.cpu().numpy()
    return Answers(
        names_of_classes(saved),
        probabilities,
        {name: uncertainty(prediction, name) for name in score_names(saved)},
        {name: getattr(prediction, name).cpu().double().numpy() for name in p_value_names(saved)},
        verdicts,
        reasons,
        made_by(prediction.sampling.draws, prediction.sampling.seed),
        None if saved.gate is None else saved.gate.answers(probabilities),
    )


def made_by(draws: int | str, seed: int | None) -> str:
    """How predictions were made, in the words that stand beside them.

    >>> made_by("moments", None), made_by(0, None), made_by(10, 0)
    ('moments', 'means', '10 draws of seed 0')
    """
    if isinstance(draws, str):
        return draws
    return f"{draws} draws of seed {seed or 0}" if draws else "means"


def check_draws(saved: "Model", draws: "Draws") -> None:
    """Before any work: whether the gate can decide about predictions with these draws.

    Raises:
        GateError: If it was fitted with others.
    """
    if saved.gate is None:
        return
    fitted = saved.gate.sampling
    if fitted.draws and draws not in ("auto", fitted.draws):
        raise GateError(
            f"the file's gate was fitted on predictions {fitted}; its promise does not hold for {draws}: "
            "leave --draws out."
        )


def _decisions(saved: "Model", prediction: "Predictive") -> tuple[list[str], list[str]]:
    gate, rows = saved.gate, len(prediction.probabilities)
    if gate is None:
        return [""] * rows, [""] * rows
    decisions = gate(prediction)
    return decisions.verdicts, decisions.reasons
