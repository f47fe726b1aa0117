"""What should a person look at? Rows of a data set in the order of what a look is worth."""

import csv
import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from totalcal.decisions.auditing import confident_classes, leave_one_out, margins, near_duplicates
from totalcal.errors import InputError
from totalcal.files.saved import Model
from totalcal.inputs import blocks, in_precision_of, moved
from totalcal.memory.domain_memory import DomainMemory
from totalcal.report.blocks import Block, Chapter, Gallery, Picture, Prose, Section
from totalcal.report.drawing import address
from totalcal.report.page import page
from totalcal.report.table import Entry, Table
from totalcal.scores.arrays import Floats, Integers, Values, check_predictions, label_numbers, plain
from totalcal.scores.external import eval_mode
from totalcal.types import Predictive

MISLABELLED, CONFLICT, UNFAMILIAR, AMBIGUOUS, DUPLICATE = (
    "mislabelled",
    "copies with different labels",
    "unfamiliar",
    "ambiguous",
    "copy",
)
_ORDER = (CONFLICT, MISLABELLED, UNFAMILIAR, AMBIGUOUS, DUPLICATE)
_ALPHA = 0.01
_DOUBTFUL = 0.2
_SHOWN = 200


class Finding(NamedTuple):
    """A row to look at: why, what its label is, and what it may be."""

    row: int
    reason: str
    label: str
    suggested: str
    probability: float
    familiarity: float | None
    copy_of: int | None


@dataclass(frozen=True, repr=False)
class Audit:
    """Rows of a data set that a person should look at, what is worth most first.

    Attributes:
        findings: The queue: copies with different labels, labels that are probably wrong, inputs unlike all
            others, ambiguous ones, and copies last.
        rows: How many rows there were.
        way: Where the probabilities came from.

    Example:
        `totalcal.audit(model, inputs, labels).save("audit.html")`
    """

    findings: tuple[Finding, ...]
    rows: int
    way: str
    pictures: Any = None

    def of(self, reason: str) -> list[int]:
        """The rows of a reason, in order."""
        return [found.row for found in self.findings if found.reason == reason]

    def __str__(self) -> str:
        counts = Counter(found.reason for found in self.findings)
        said = ", ".join(f"{counts[reason]} {reason}" for reason in _ORDER if counts[reason])
        return f"{self.rows} rows: {said or 'nothing to look at'} ({self.way})"

    __repr__ = __str__

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the queue: a table (.csv) or a page (.html).

        Raises:
            InputError: If the path ends in neither.
        """
        suffix = Path(path).suffix.lower()
        if suffix == ".html":
            Path(path).write_text(self.to_html(), encoding="utf-8")
        elif suffix == ".csv":
            with Path(path).open("w", newline="", encoding="utf-8") as file:
                table = csv.writer(file)
                table.writerow(Finding._fields)
                table.writerows(["" if value is None else value for value in each] for each in self.findings)
        else:
            raise InputError(f"an audit is written as .csv or .html, but {path} ends in neither.")

    def to_html(self) -> str:
        """One page that needs nothing else, with the rows as pictures where they are some."""
        shown = self.findings[:_SHOWN]
        blocks_: list[Block] = [Prose(str(self), True)]
        pictures = [] if self.pictures is None else [_picture(self.pictures, each) for each in shown]
        if pictures and all(each is not None for each in pictures):
            blocks_.append(Gallery("In order", [each for each in pictures if each is not None]))
        else:
            headings = ["row", "why", "label", "perhaps", "p of the label", "familiarity", "copy of"]
            rows = [tuple(Entry(_word(value)) for value in each) for each in shown]
            blocks_.append(Table.of_rows("queue", "In order.", headings, rows))
        lead = f"The first {len(shown)} of {len(self.findings)} rows to look at."
        section = Section("queue", "What to look at", lead, blocks_)
        return page(
            [Chapter("audit", "Audit", "labels", f"{self.rows} rows", [section])], made_from="the rows"
        )


def audit(
    model: Model, inputs: Any, labels: Values, *, seen: bool = True, probabilities: Values | None = None
) -> Audit:
    """Find the rows of a data set that a person should look at.

    Args:
        model: What `calibrate` or `load` gave.
        inputs: Rows as the user has them.
        labels: Their classes: numbers, or names where the model has names.
        seen: Whether the net was trained on these rows, and so believes their labels. Then what is said of
            a row is said by the other rows, in the features of the memory.
        probabilities: Out of sample, rows × classes, in the place of either: such as those of scikit-learn's
            `cross_val_predict`.

    Returns:
        The queue; `save("audit.csv")` or `save("audit.html")`.

    Raises:
        InputError: If rows that the net was trained on are audited by a model without a memory.

    Example:
        `totalcal.audit(model, inputs, labels).of("mislabelled")[:20]`
    """
    numbers = label_numbers(labels, model.classes)
    domain = model.process.domain
    rows = model.inputs(inputs)
    bare = replace(model, preprocessing=None, steps=None)
    device = next((weight.device for weight in model.process.parameters()), torch.device("cpu"))
    parts, features = [], []
    with torch.no_grad(), eval_mode(model.process):
        for part in blocks(rows, 256):
            taken = moved(in_precision_of(model.process.backbone, part), device)
            parts.append(bare.predict(taken))
            if isinstance(domain, DomainMemory):
                joint = domain.joint(model.process.observe(taken, domain.taps))
                features.append(((joint - domain.mean) @ domain.factor.T).cpu().double())
    prediction = Predictive.joined(parts)
    seen_as = torch.cat(features).numpy() if features else None
    if probabilities is not None:
        found, way = plain(probabilities).astype(np.float64), "by the probabilities that were given"
    elif not seen:
        found, way = plain(prediction.probabilities).astype(np.float64), "by the model"
    elif seen_as is not None:
        found = leave_one_out(seen_as, numbers, prediction.probabilities.shape[-1])
        way = "each by all others, in the features of the memory"
    else:
        raise InputError(
            "this model has no memory, so it cannot say what it would of a row without having been trained "
            "on it. Calibrate it, give probabilities=… out of sample, or seen=False if the rows are new."
        )
    check_predictions(found, numbers)
    pictures = inputs if isinstance(inputs, torch.Tensor | np.ndarray) else None
    return Audit(_queue(found, numbers, prediction, seen_as, model), len(numbers), way, pictures)


def _queue(
    probabilities: Floats, labels: Integers, prediction: Predictive, features: Floats | None, model: Model
) -> tuple[Finding, ...]:
    names = list(map(str, model.classes or range(probabilities.shape[1])))
    rows = np.arange(len(labels))
    confident, margin = confident_classes(probabilities, labels), margins(probabilities, labels)
    first = rows if features is None else near_duplicates(features)
    familiarity = None if prediction.domain is None else plain(prediction.familiarity)
    families: dict[int, set[int]] = {}
    for row, head in enumerate(first.tolist()):
        families.setdefault(head, set()).add(int(labels[row]))
    reasons: dict[int, tuple[str, float]] = {}
    for row in rows.tolist():
        if len(families[int(first[row])]) > 1:
            reasons[row] = CONFLICT, float(margin[row])
        elif first[row] != row:
            reasons[row] = DUPLICATE, 0.0
        elif confident[row] != labels[row] and margin[row] < 0:
            reasons[row] = MISLABELLED, float(margin[row])
        elif familiarity is not None and familiarity[row] <= _ALPHA:
            reasons[row] = UNFAMILIAR, float(familiarity[row])
        elif abs(margin[row]) < _DOUBTFUL:
            reasons[row] = AMBIGUOUS, abs(float(margin[row]))
    ordered = sorted(reasons, key=lambda row: (_ORDER.index(reasons[row][0]), reasons[row][1], row))
    return tuple(
        Finding(
            row=row,
            reason=reasons[row][0],
            label=names[labels[row]],
            suggested=names[int(probabilities[row].argmax())],
            probability=float(probabilities[row, labels[row]]),
            familiarity=None if familiarity is None else float(familiarity[row]),
            copy_of=int(first[row]) if first[row] != row else None,
        )
        for row in ordered
    )


def _picture(inputs: Any, found: Finding) -> Picture | None:
    from totalcal.calibration.reporting import _picture as as_bytes

    values = as_bytes(inputs, found.row)
    if values is None:
        return None
    title = f"{found.row}: {found.reason}"
    return Picture(address(values), title, title, f"{found.label}, perhaps {found.suggested}")


def _word(value: Any) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
