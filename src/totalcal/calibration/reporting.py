"""What a calibrated model is worth on test rows: measured here, made into a page by `totalcal.report`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from totalcal.calibration.calibrator import NoCalibrator
from totalcal.decisions.gate import ACCEPT, ASK, NOT_MY_DOMAIN
from totalcal.errors import GateError, InputError, LabelError
from totalcal.inputs import Inputs, as_class_numbers, as_inputs, blocks, check_labels, joined, labelled
from totalcal.report.model_page import ClassRates, Cover, Judged, ModelReport, OODSet, RefusedRow
from totalcal.scores.arrays import label_numbers, plain
from totalcal.scores.streaming import Rows, labelled_blocks
from totalcal.types import Predictive
from totalcal.uncertainties import P_VALUES

if TYPE_CHECKING:
    from totalcal.files.saved import Model

_EXAMPLES = 6
_COVERAGES = (0.8, 0.9, 0.95)
_LARGEST_SIDE = 256


def report_on(
    model: "Model", test: Rows, ood: Mapping[str, Rows] | None = None, *, batch_size: int = 256
) -> ModelReport:
    """Judge a model on test rows, before and after calibration, and on rows of other domains.

    Args:
        model: What `calibrate` or `load` gave.
        test: Rows with labels that nothing was trained, fitted or chosen on.
        ood: Out-of-distribution sets by name, which need no labels. None of them changes the model.
        batch_size: How many rows pass at once.

    Returns:
        The report: `save("report.html")` or `save("card.md")`.

    Raises:
        InputError: If the OOD sets have no names.
        LabelError: If test rows have no labels, or some that are no classes.
    """
    if ood is not None and not isinstance(ood, Mapping):
        raise InputError('`ood` names its sets: give a mapping such as {"letters": letters}.')
    inputs, labels = _labelled(model, test, batch_size)
    started = time.perf_counter()
    after = _predicted(model, inputs, batch_size)
    seconds = time.perf_counter() - started
    bare = replace(model, gate=None, sets=None)
    calibrator = model.process.calibrator
    try:
        model.process.calibrator = NoCalibrator()
        before = _predicted(bare, inputs, batch_size)
        panel = {name: _rows(rows, batch_size) for name, rows in (ood or {}).items()}
        entropies = {name: _predicted(bare, rows, batch_size).entropy for name, rows in panel.items()}
    finally:
        model.process.calibrator = calibrator
    domains, examples = [], _examples(inputs, after, "test")
    for name, rows in panel.items():
        prediction = _predicted(model, rows, batch_size)
        domains.append(
            OODSet(
                name=name,
                entropy=plain(entropies[name]),
                entropy_after=plain(prediction.entropy),
                p_values=_p_values(prediction),
                unfamiliarity=None if prediction.domain is None else plain(prediction.unfamiliarity),
                verdicts=tuple(prediction.decision) if model.gate is not None else (),
            )
        )
        examples += _examples(rows, prediction, name)
    gate, paid = model.gate, ""
    if gate is not None and gate.costs is not None:
        probabilities, accepted = plain(after.probabilities), np.array(after.decision) == ACCEPT
        paid = gate.costs.told(gate.answers(probabilities), accepted, labels.numpy(), probabilities.shape[1])
    return ModelReport(
        title=str(model).partition("\n")[0].partition(":")[0],
        classes=tuple(map(str, model.classes or range(model.process.num_classes))),
        labels=labels.numpy(),
        before=_judged(before, model),
        after=_judged(after, model),
        domains=tuple(domains),
        covers=tuple(_covers(model, after, labels.numpy())),
        by_class=tuple(_by_class(model, after, labels.numpy())),
        paid=paid,
        examples=tuple(examples),
        story=None if model.summary is None else str(model.summary),
        promise="" if model.gate is None else model.gate.promise,
        costs={
            "time per row": f"{1000 * seconds / max(len(labels), 1):.2f} ms",
            "weights": f"{sum(weight.numel() for weight in model.process.parameters()):,}",
            "numbers in the memory": f"{sum(each.numel() for each in model.process.domain.buffers()):,}",
            "predictions": f"predictions {after.sampling}",
        },
    )


def _judged(prediction: Predictive, model: "Model") -> Judged:
    knows = prediction.domain is not None
    probabilities = plain(prediction.probabilities)
    return Judged(
        probabilities=probabilities,
        answers=probabilities.argmax(1) if model.gate is None else model.gate.answers(probabilities),
        entropy=plain(prediction.entropy),
        p_values=_p_values(prediction),
        unfamiliarity=plain(prediction.unfamiliarity) if knows else None,
        verdicts=tuple(prediction.decision) if prediction.gate is not None else (),
    )


def _p_values(prediction: Predictive) -> dict[str, Any]:
    known = P_VALUES if prediction.domain is not None else ()
    return {name: plain(getattr(prediction, name)) for name in known}


def _covers(model: "Model", prediction: Predictive, labels: Any) -> Iterator[Cover]:
    """At the coverages for which there are held-out rows enough."""
    for promised in _COVERAGES if model.valid_sets is not None else ():
        with suppress(GateError):
            within = plain(prediction.set(promised))
            sizes = within.sum(1)
            held = within[np.arange(len(labels)), labels].mean()
            yield Cover(promised, float(held), float(sizes.mean()), float((sizes == 1).mean()))


def _by_class(model: "Model", prediction: Predictive, labels: Any) -> Iterator[ClassRates]:
    """What was promised, if `PerClass` was asked for, by class: verdicts by answer, sets by true class."""
    if prediction.gate is None:
        return
    verdicts, answers = (
        np.array(prediction.decision),
        prediction.gate.answers(plain(prediction.probabilities)),
    )
    sets = model.valid_sets
    within = None if sets is None else sets.of(plain(prediction.probabilities))
    for place, name in enumerate(model.classes or range(prediction.probabilities.shape[1])):
        given, truly = answers == place, labels == place
        right = given & truly & (verdicts != NOT_MY_DOMAIN)
        yield ClassRates(
            name=str(name),
            rows=int(given.sum()),
            accepted=_mean(verdicts[given] == ACCEPT),
            refused=_mean(verdicts[given] == NOT_MY_DOMAIN),
            asked=_mean(verdicts[right] == ASK),
            held=None if within is None else _mean(within[truly, place]),
        )


def _mean(flags: Any) -> float | None:
    return float(flags.mean()) if len(flags) else None


def _labelled(model: "Model", test: Rows, batch_size: int) -> tuple[Any, Tensor]:
    if isinstance(test, tuple) and len(test) == 2:
        rows, labels = test
        numbers = as_class_numbers(torch.as_tensor(label_numbers(labels, model.classes)))
        there = None if isinstance(rows, tuple | Mapping) else getattr(rows, "shape", None)
        check_labels(numbers, there[0] if there else len(numbers), model.process.num_classes)
        return rows, numbers
    parts, truths = [], []
    for part, truth in labelled_blocks(test, batch_size):
        if truth is None:
            raise LabelError("the test rows of a report need labels: give them as (inputs, labels).")
        parts.append(as_inputs(part))
        truths.append(truth)
    return joined(parts), torch.cat(truths)


def _rows(rows: Any, batch_size: int) -> Any:
    if isinstance(rows, list):
        return joined([labelled(batch)[0] for batch in rows])
    return rows


def _predicted(model: "Model", rows: Any, batch_size: int) -> Predictive:
    """In blocks, where rows are tensors; a table passes whole."""
    if model.steps is not None or model.preprocessing is not None:
        return model.predict(rows)
    parts: Sequence[Inputs] = list(blocks(as_inputs(rows), batch_size))
    return Predictive.joined([model.predict(part) for part in parts])


def _examples(rows: Any, prediction: Predictive, where: str) -> list[RefusedRow]:
    """The rows that are refused most clearly, with their pictures if they are some."""
    if prediction.gate is None:
        return []
    verdicts, why = prediction.decision, prediction.why
    refused = [row for row, verdict in enumerate(verdicts) if verdict != "accept"]
    score = prediction.entropy if prediction.domain is None else prediction.unfamiliarity
    refused.sort(key=lambda row: -float(score[row]))
    labels, confidence = prediction.labels, prediction.confidence
    return [
        RefusedRow(
            where=where,
            label=str(labels[row]),
            confidence=float(confidence[row]),
            verdict=verdicts[row],
            why=why[row],
            picture=picture_of(rows, row),
        )
        for row in refused[:_EXAMPLES]
    ]


def picture_of(rows: Any, row: int) -> Any:
    """A row as bytes, height × width × channels, where it can be one."""
    if not isinstance(rows, torch.Tensor | np.ndarray) or not len(rows):
        return None
    values = plain(rows[row])
    if values.ndim == 3 and values.shape[0] in (1, 3):
        values = np.moveaxis(values, 0, -1)
    if values.ndim == 2:
        values = values[..., None]
    if values.ndim != 3 or values.shape[-1] not in (1, 3) or max(values.shape) > _LARGEST_SIDE:
        return None
    low, high = float(values.min()), float(values.max())
    return ((values - low) / max(high - low, 1e-9) * 255).astype(np.uint8)
