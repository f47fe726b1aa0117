"""What should a person look at? Rows of a data set in the order of what a look is worth.

A row labelled i is probably of class j if p_j is at least t_j, the mean of p_j over the rows labelled j,
and the largest of those that are (Northcutt, Jiang and Chuang 2021). The probabilities have to be out of
sample: a classifier believes the labels that it was fitted on. `leave_one_out` gives such ones for given
features in closed form: the ridge regression of the labels without row i predicts f_i − h_ii (y_i − f_i) /
(1 − h_ii), an update of rank one.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from totalcal.calibration.reporting import picture_of
from totalcal.errors import InputError, ShapeError
from totalcal.files.saved import Model
from totalcal.files.whole_files import write_whole
from totalcal.inputs import blocks, device_of, in_precision_of, moved
from totalcal.memory.domain_memory import DomainMemory
from totalcal.report.blocks import Block, Chapter, Gallery, Picture, Prose, Section
from totalcal.report.drawing import address
from totalcal.report.page import page
from totalcal.report.table import Entry, Table, csv_text
from totalcal.scores.arrays import Floats, Integers, Values, check_predictions, label_numbers, plain
from totalcal.scores.external import eval_mode
from totalcal.types import Predictive

CONFLICT, MISLABELLED, AMBIGUOUS, UNFAMILIAR, SURE, DUPLICATE = _ORDER = (
    "copies with different labels",
    "mislabelled",
    "ambiguous",
    "unfamiliar",
    "sure",
    "copy",
)
_GIVEN = "by the probabilities that were given"
_ALPHA = 0.01
_DOUBTFUL = 0.2
_SHOWN = 200


class Finding(NamedTuple):
    """A row to look at: why, what its label is, how probable that is (or the suggestion), what it may be."""

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
        findings: The queue: copies with different labels, doubtful labels with the least probable first,
            other inputs that are unlike all others, and copies last. Without labels, in the order of what a
            label is worth.
        rows: How many rows there were.
        way: Where the probabilities came from.
        probabilities: Of each row and class, without what the row's own label says.

    Example:
        `totalcal.audit(model, inputs, labels).save("audit.html")`
    """

    findings: tuple[Finding, ...]
    rows: int
    way: str
    probabilities: Floats
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
            write_whole(Path(path), self.to_html())
        elif suffix == ".csv":
            rows = (["" if value is None else value for value in each] for each in self.findings)
            write_whole(Path(path), csv_text([Finding._fields, *rows]))
        else:
            raise InputError(f"an audit is written as .csv or .html, but {path} ends in neither.")

    def to_html(self) -> str:
        """One page that needs nothing else, with the rows as pictures where they are some."""
        shown = self.findings[:_SHOWN]
        drawn = [] if self.pictures is None else [picture_of(self.pictures, each.row) for each in shown]
        pictures = []
        for each, values in zip(shown, drawn, strict=False):
            if values is not None:
                title = f"{each.row}: {each.reason}"
                said = f"{each.label}, perhaps {each.suggested}"
                pictures.append(Picture(address(values), title, title, said))
        if shown and len(pictures) == len(shown):
            queue: Block = Gallery("In order", pictures)
        else:
            headings = ["row", "why", "label", "perhaps", "p of the label", "familiarity", "copy of"]
            rows = [
                tuple(
                    Entry("" if each is None else f"{each:.3g}" if isinstance(each, float) else str(each))
                    for each in found
                )
                for found in shown
            ]
            queue = Table.of_rows("queue", "In order.", headings, rows)
        lead = f"The first {len(shown)} of {len(self.findings)} rows to look at."
        section = Section("queue", "What to look at", lead, [Prose(str(self), True), queue])
        return page(
            [Chapter("audit", "Audit", "labels", f"{self.rows} rows", [section])],
            made_from="the rows",
            question="What should a person look at?",
            about="wrong labels, ambiguous and unfamiliar inputs, copies",
        )


def audit(
    model: Any,
    inputs: Any,
    labels: Values | None = None,
    *,
    seen: bool = True,
    probabilities: Values | None = None,
) -> Audit:
    """Find the rows of a data set that a person should look at, or should label next.

    Args:
        model: What `calibrate` or `load` gave; or a classifier of scikit-learn, which is fitted again to
            four fifths of the rows to judge the others.
        inputs: Rows as the user has them.
        labels: Their classes: numbers, or names where the model has names. Without labels all rows are
            queued in the order of what a label is worth: the more the more doubtful a row is, and the
            farther from those before it.
        seen: Whether the net was trained on these rows, and so believes their labels. Then what is said of
            a row is said by the other rows, in the features of the memory.
        probabilities: Out of sample, rows × classes, in the place of either.

    Returns:
        The queue; `save("audit.csv")` or `save("audit.html")`.

    Raises:
        InputError: If rows that the net was trained on are audited by a model without a memory.

    Example:
        `totalcal.audit(model, inputs, labels).of("mislabelled")[:20]`
    """
    pictures = inputs if isinstance(inputs, torch.Tensor | np.ndarray) else None
    if not isinstance(model, Model):
        names, numbers, found = _cross_fitted(model, inputs, labels, probabilities)
        way = "by the others, in five parts" if probabilities is None else _GIVEN
        queue = _queue(found, numbers, names, _standardised(inputs), None)
        return Audit(queue, len(found), way, found, pictures)
    model = model.snapshot()
    names = list(map(str, model.classes or range(model.process.num_classes)))
    prediction, features = _looked_at(model, inputs)
    numbers = None if labels is None else label_numbers(labels, model.classes)
    if numbers is not None and len(numbers) != len(prediction.probabilities):
        raise ShapeError(f"there are {len(prediction.probabilities)} rows, but {len(numbers)} labels.")
    if probabilities is not None:
        found, way = plain(probabilities).astype(np.float64), _GIVEN
    elif numbers is None or not seen:
        found, way = plain(prediction.probabilities).astype(np.float64), "by the model"
    elif features is not None:
        found = leave_one_out(features, numbers, prediction.probabilities.shape[-1])
        way = "each by all others, in the features of the memory"
    else:
        raise InputError(
            "this model has no memory, so it cannot say what it would of a row without having been trained "
            "on it. Calibrate it, give probabilities=… out of sample, or seen=False if the rows are new."
        )
    familiarity = None if prediction.domain is None else plain(prediction.familiarity)
    queue = _queue(found, numbers, names, features, familiarity)
    return Audit(queue, len(found), way, found, pictures)


def _looked_at(model: Model, inputs: Any) -> tuple[Predictive, Floats | None]:
    """The predictions, and the rows in the features of the memory, where there is one."""
    domain, rows = model.process.domain, model.inputs(inputs)
    bare = replace(model, preprocessing=None, steps=None)
    device = device_of(model.process)
    parts, features = [], []
    with torch.no_grad(), eval_mode(model.process):
        for part in blocks(rows, 256):
            taken = moved(in_precision_of(model.process.backbone, part), device)
            parts.append(bare.predict(taken))
            if isinstance(domain, DomainMemory):
                joint = domain.joint(model.process.observe(taken, domain.taps))
                features.append(((joint - domain.mean) @ domain.factor.T).cpu().double())
    return Predictive.joined(parts), torch.cat(features).numpy() if features else None


def _cross_fitted(
    classifier: Any, inputs: Any, labels: Values | None, probabilities: Values | None
) -> tuple[list[str], Integers | None, Floats]:
    """Names of the classes, labels as numbers, and the probabilities of each row by a fit to others."""
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    if not hasattr(classifier, "predict_proba"):
        raise InputError(
            f"a {type(classifier).__name__} is neither a totalcal.Model nor a classifier with predict_proba. "
            "Calibrate a net first: totalcal.calibrate(net, train, held_out)."
        )
    if labels is None:
        found = classifier.predict_proba(inputs) if probabilities is None else plain(probabilities)
        return list(map(str, classifier.classes_)), None, np.asarray(found, dtype=np.float64)
    names, numbers = np.unique(plain(labels), return_inverse=True)
    if probabilities is None:
        parts = StratifiedKFold(5, shuffle=True, random_state=0)
        fresh = clone(classifier)
        probabilities = cross_val_predict(fresh, inputs, numbers, cv=parts, method="predict_proba")
    return list(map(str, names)), numbers, plain(probabilities).astype(np.float64)


def _standardised(inputs: Any) -> Floats | None:
    """The columns of a table on one scale, to measure distances; none where they are not all numbers."""
    try:
        rows = plain(inputs).reshape(len(inputs), -1).astype(np.float64)
    except (TypeError, ValueError):
        return None
    spread = rows.std(0)
    return np.asarray((rows - rows.mean(0))[:, spread > 0] / spread[spread > 0])


def _queue(
    probabilities: Floats,
    labels: Integers | None,
    names: list[str],
    features: Floats | None,
    familiarity: Floats | None,
) -> tuple[Finding, ...]:
    best = probabilities.argmax(1)
    believed = best if labels is None else labels
    check_predictions(probabilities, believed)
    places = np.arange(len(best))
    confident, margin = confident_classes(probabilities, believed), margins(probabilities, believed)
    own = probabilities[places, believed]
    first = places if features is None else near_duplicates(features)
    families: dict[int, set[int]] = {}
    for row, head in enumerate(first.tolist()):
        families.setdefault(head, set()).add(int(believed[row]))
    reasons: dict[int, str] = {}
    for row in places.tolist():
        if labels is not None and len(families[int(first[row])]) > 1:
            reasons[row] = CONFLICT
        elif first[row] != row:
            reasons[row] = DUPLICATE
        elif labels is not None and confident[row] != labels[row] and margin[row] < 0:
            reasons[row] = MISLABELLED
        elif familiarity is not None and familiarity[row] <= _ALPHA:
            reasons[row] = UNFAMILIAR
        elif margin[row] < _DOUBTFUL:
            reasons[row] = AMBIGUOUS
        elif labels is None:
            reasons[row] = SURE

    def place_of(row: int) -> tuple[int, float, int]:
        """Doubtful labels by how probable they are, whatever the reason: no other order finds more."""
        if reasons[row] == CONFLICT:
            return 0, own[row], row
        if reasons[row] == DUPLICATE:
            return 3, 0.0, row
        if familiarity is None or margin[row] < _DOUBTFUL:
            return 1, own[row], row
        return 2, familiarity[row], row

    if labels is None:
        strange = np.zeros(len(best), dtype=bool) if familiarity is None else familiarity <= _ALPHA
        ordered = by_worth(np.where(strange, 1.0, 1 - margin), features).tolist()
    else:
        ordered = sorted(reasons, key=place_of)
    return tuple(
        Finding(
            row=row,
            reason=reasons[row],
            label="" if labels is None else names[labels[row]],
            suggested=names[int(best[row])],
            probability=float(own[row]),
            familiarity=None if familiarity is None else float(familiarity[row]),
            copy_of=int(first[row]) if first[row] != row else None,
        )
        for row in ordered
    )


_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_SHARPEST = 100.0
_NEAR = 0.05
_BLOCK = 512
_MOST_STEPS = 1000


def confident_classes(probabilities: Floats, labels: Integers) -> Integers:
    """The class that each row is confidently of, by the thresholds of the classes; its label, if of none.

    Example:
        >>> sure = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.1, 0.9], [0.1, 0.9]])
        >>> confident_classes(sure, np.array([0, 0, 1, 1, 0]))
        array([0, 0, 1, 1, 1])
    """
    classes = probabilities.shape[1]
    counts = np.bincount(labels, minlength=classes)
    own = probabilities[np.arange(len(labels)), labels]
    thresholds = np.where(
        counts > 0, np.bincount(labels, own, minlength=classes) / np.maximum(counts, 1), np.inf
    )
    confident = np.where(probabilities >= thresholds - 1e-12, probabilities, -1.0)
    found = confident.argmax(1)
    return np.where(confident.max(1) >= 0, found, labels)


def margins(probabilities: Floats, labels: Integers) -> Floats:
    """p of the label less the largest other: −1 is a label that is certainly wrong."""
    rows = np.arange(len(labels))
    others = probabilities.copy()
    others[rows, labels] = -np.inf
    return np.asarray(probabilities[rows, labels] - others.max(1))


def leave_one_out(features: Floats, labels: Integers, classes: int) -> Floats:
    """Probabilities of each row by a ridge regression on all others; ridge and temperature by their own NLL.

    Example:
        >>> noise = np.random.default_rng(0)
        >>> rows = noise.normal(size=(60, 2)) + 4 * np.repeat([[0], [1]], 30, axis=0)
        >>> found = leave_one_out(rows, np.repeat([0, 1], 30), 2)
        >>> bool(found[:30, 0].mean() > 0.8)
        True
    """
    from scipy.special import softmax

    targets = np.eye(classes)[labels]
    rows = np.hstack([features, np.ones((len(features), 1))])
    values, vectors = np.linalg.eigh(rows.T @ rows)
    turned = rows @ vectors
    onto = turned.T @ targets
    best, chosen = np.inf, targets
    for ridge in _RIDGES:
        weight = 1 / (np.maximum(values, 0) + ridge * values.mean())
        fitted, leverage = turned @ (weight[:, None] * onto), (turned**2 * weight).sum(1)
        share = (leverage / np.maximum(1 - leverage, 1e-9))[:, None]
        without = fitted - share * (targets - fitted)
        for sharpness in np.geomspace(1, _SHARPEST, 20):
            probabilities = softmax(sharpness * without, axis=1)
            nll = -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], 1e-300)).mean()
            if nll < best:
                best, chosen = nll, probabilities
    return chosen


def by_worth(doubt: Floats, features: Floats | None) -> Integers:
    """Rows in the order of what their labels are worth: doubt times the distance to the nearest one before.

    What is like a row that is to be labelled anyway is worth little, a copy of it nothing, and what is far
    from all others much. After a thousand rows distances stay what they are.

    Example:
        >>> by_worth(np.array([0.5, 0.9, 0.9, 0.1]), np.array([[0.0], [3.0], [3.0], [9.0]])).tolist()
        [1, 0, 3, 2]
    """
    if features is None or not len(doubt):
        return np.argsort(-doubt, kind="stable")
    squares = (features**2).sum(1)
    nearest, is_left, worth = np.full(len(doubt), np.inf), np.ones(len(doubt), dtype=bool), doubt
    order: list[int] = []
    while len(order) < min(len(doubt), _MOST_STEPS):
        last = int(np.where(is_left, worth, -1.0).argmax())
        order.append(last)
        is_left[last] = False
        to_last = squares + squares[last] - 2 * features @ features[last]
        nearest = np.minimum(nearest, np.sqrt(np.maximum(to_last, 0)))
        worth = doubt * nearest
    rest = np.flatnonzero(is_left)
    return np.concatenate([order, rest[np.argsort(-worth[rest], kind="stable")]]).astype(np.int64)


def near_duplicates(features: Floats) -> Integers:
    """The first row that each row is nearly a copy of; itself if of none.

    Two rows are if they are nearer to each other than a twentieth of the median distance to a nearest row.

    Example:
        >>> near_duplicates(np.array([[0.0, 0], [5, 0], [0, 0.01], [9, 9], [14, 9]])).tolist()
        [0, 1, 0, 3, 4]
    """
    first = np.arange(len(features))
    if len(features) < 3:
        return first
    nearest = np.concatenate([each.min(1) for each in _distances(features)])
    limit = _NEAR * float(np.median(nearest[nearest > 0])) if (nearest > 0).any() else 0.0
    close = np.flatnonzero(nearest <= limit)  # whoever is near to one of these is one of them
    start = 0
    for block in _distances(features[close]):
        for row, near in zip(close[start : start + len(block)], block <= limit, strict=True):
            first[row] = min(first[row], *first[close[near]])
        start += len(block)
    return first


def _distances(rows: Floats) -> Iterator[Floats]:
    """Of every row to every other, in blocks of rows; ∞ to itself. In many dimensions no tree is faster."""
    squares = (rows**2).sum(1)
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        found = squares[start : start + _BLOCK, None] + squares - 2 * block @ rows.T
        found[np.arange(len(block)), np.arange(start, start + len(block))] = np.inf
        yield np.sqrt(np.maximum(found, 0))
