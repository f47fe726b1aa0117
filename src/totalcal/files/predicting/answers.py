"""What a saved model says of rows: the one way from rows to answers, for tables and for the service.

`Answers` themselves know no torch: whatever gives them can be written.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from totalcal.errors import GateError, InputError, TotalcalError
from totalcal.files.container import PROGRAMS, check_digest, read_container
from totalcal.files.predicting.inputs import FileRows, Floats, rows_of
from totalcal.files.predicting.tables import RawTable
from totalcal.uncertainties import P_VALUES, UNCERTAINTIES, UNFAMILIARITIES, uncertainty

if TYPE_CHECKING:
    from totalcal.files.predicting.exported import ExportedModel
    from totalcal.files.saved import Model
    from totalcal.files.steps import Steps
    from totalcal.types import Draws


@dataclass(frozen=True)
class Answers:
    """One entry per row; a decision and its reason are empty where there is no gate, or no reason.

    Attributes:
        classes: The names of the columns of `probabilities`.
        probabilities: Rows × classes.
        scores: By name: uncertainties, and of a model that remembers its domain the p-values too.
        decisions: The gate's verdict.
        reasons: Why.
        made: By which draws.
        chosen: The places of the answers, where costs choose another than the most probable class.
    """

    classes: tuple[Any, ...]
    probabilities: Floats
    scores: dict[str, Floats]
    decisions: list[str]
    reasons: list[str]
    made: str
    chosen: npt.NDArray[np.int64] | None = None

    @property
    def best(self) -> list[Any]:
        """The answer to each row, by name."""
        places = self.probabilities.argmax(1) if self.chosen is None else self.chosen
        return [self.classes[place] for place in places]

    def rows(self, start: int, stop: int) -> "Answers":
        """Some of the rows."""
        chosen = slice(start, stop)
        return replace(
            self,
            probabilities=self.probabilities[chosen],
            scores={name: values[chosen] for name, values in self.scores.items()},
            decisions=self.decisions[chosen],
            reasons=self.reasons[chosen],
            chosen=None if self.chosen is None else self.chosen[chosen],
        )


@dataclass(frozen=True)
class SavedPredictor:
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
) -> "SavedPredictor | ExportedModel":
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
    from totalcal.files.predicting.exported import open_exported

    if file.suffix in PROGRAMS:
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
    return SavedPredictor(replace(saved, steps=None), digest, draws, saved.steps)


def names_of_classes(saved: "Model") -> tuple[Any, ...]:
    """The names of the classes that the file has, or else their numbers."""
    return saved.classes or tuple(range(saved.process.num_classes))


def score_names(saved: "Model") -> tuple[str, ...]:
    """The scores that an answer of this model has, in the order of a table."""
    of_memory = (*UNFAMILIARITIES, *P_VALUES) if saved.process.domain.taps else ()
    return (*UNCERTAINTIES, *of_memory)


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
    probabilities, gate = prediction.probabilities.cpu().numpy(), saved.gate
    silent = [""] * len(probabilities)
    return Answers(
        names_of_classes(saved),
        probabilities,
        {name: uncertainty(prediction, name) for name in score_names(saved)},
        silent if gate is None else prediction.decision,
        silent if gate is None else prediction.why,
        made_by(prediction.sampling.draws, prediction.sampling.seed),
        None if gate is None else gate.answers(probabilities),
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
    fitted = None if saved.gate is None else saved.gate.sampling
    if fitted and fitted.draws and draws not in ("auto", fitted.draws):
        raise GateError(
            f"the file's gate was fitted on predictions {fitted}; its promise does not hold for {draws}: "
            "leave --draws out."
        )
