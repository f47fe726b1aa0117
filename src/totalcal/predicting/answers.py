"""What a saved model says of rows: the one way from rows to answers, for tables and for the service."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from totalcal.errors import GateError
from totalcal.files.saved import SavedModel
from totalcal.parts.domain import DomainMemory
from totalcal.rejection import sampling_of
from totalcal.types import Draws, Predictive
from totalcal.uncertainties import UNCERTAINTIES, UNFAMILIARITY, uncertainty

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """One entry per row; a decision and its reason are empty where there is no gate, or no reason.

    Attributes:
        classes: The names of the columns of `probabilities`.
        probabilities: Rows × classes.
        scores: Uncertainties by name, `unfamiliarity` among them where the model remembers its domain.
        familiarity: A p-value per row, or None without such a memory.
        decisions: The gate's verdict.
        reasons: Why.
    """

    classes: tuple[Any, ...]
    probabilities: Floats
    scores: dict[str, Floats]
    familiarity: Floats | None
    decisions: list[str]
    reasons: list[str]

    @property
    def best(self) -> list[Any]:
        """The most probable class of each row, by name."""
        return [self.classes[place] for place in self.probabilities.argmax(1)]

    def rows(self, start: int, stop: int) -> "Answers":
        """Some of the rows."""
        chosen = slice(start, stop)
        return Answers(
            self.classes,
            self.probabilities[chosen],
            {name: values[chosen] for name, values in self.scores.items()},
            None if self.familiarity is None else self.familiarity[chosen],
            self.decisions[chosen],
            self.reasons[chosen],
        )


def class_names(saved: SavedModel) -> tuple[Any, ...]:
    return saved.classes or tuple(range(saved.model.num_classes))


def score_names(saved: SavedModel) -> tuple[str, ...]:
    """The uncertainties that an answer of this model has, in the order of a table."""
    remembers = isinstance(saved.model.domain, DomainMemory)
    return (*UNCERTAINTIES, UNFAMILIARITY) if remembers else tuple(UNCERTAINTIES)


def answers(saved: SavedModel, rows: Sequence[npt.NDArray[Any]], draws: Draws | None = None) -> Answers:
    """The answers to rows as the user has them, with the draws of the gate or of the user."""
    prediction = saved.predict(np.stack(rows), draws)
    verdicts, reasons = _decisions(saved, prediction)
    return Answers(
        class_names(saved),
        prediction.probabilities.numpy(),
        {name: uncertainty(prediction, name) for name in score_names(saved)},
        None if prediction.domain is None else prediction.familiarity.cpu().double().numpy(),
        verdicts,
        reasons,
    )


def check_draws(saved: SavedModel, draws: Draws | None) -> None:
    """Before any work: whether the gate can decide about predictions with these draws.

    Raises:
        GateError: If it was fitted with others, or does not know with which.
    """
    if saved.gate is None:
        return
    fitted = saved.gate.sampling
    if fitted is None and draws is None:
        raise GateError(
            "the file's gate does not know how many draws it was fitted with (totalcal 0.1 did not note it). "
            "Fit it again and save; or, if you know, say it: --draws 10 was the default."
        )
    if fitted is not None and fitted.draws and draws not in (None, fitted.draws):
        raise GateError(
            f"the file's gate was fitted with {fitted.draws} draws; its promise does not hold for {draws}: "
            "leave --draws out."
        )


def _decisions(saved: SavedModel, prediction: Predictive) -> tuple[list[str], list[str]]:
    gate, rows = saved.gate, len(prediction.probabilities)
    if gate is None:
        return [""] * rows, [""] * rows
    if gate.sampling is None:  # the user has said how it was fitted
        gate = replace(gate, sampling=sampling_of(prediction))
    decisions = gate(prediction)
    return decisions.verdicts, decisions.reasons
