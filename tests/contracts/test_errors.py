"""What every model refuses, and how it says so."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import totalcal
from totalcal import MODELS, Batch, TuringProcess
from totalcal.errors import ContextError, InputError, LabelError, ShapeError
from totalcal.files.saved import Model
from totalcal.parts.latents import TargetLatent
from totalcal.types import ContextUse


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_inputs_that_are_not_finite_are_refused(model: TuringProcess, data: Batch, bad: float) -> None:
    inputs = data.inputs.clone()
    inputs[7, 1] = bad
    with pytest.raises(InputError, match="row 7"):
        model(inputs, data.labels)
    context = data if model.context_use is ContextUse.REQUIRED else None
    with pytest.raises(InputError, match="row 7"):
        model.predict(inputs, context=context)


@pytest.fixture(scope="module")
def calibrated() -> tuple[Model, torch.Tensor]:
    labels = torch.arange(400) % 3
    rows = torch.randn(400, 4, generator=torch.Generator().manual_seed(0)) + 5 * torch.eye(3, 4)[labels]
    net = nn.Linear(4, 3)
    return totalcal.calibrate(net, (rows[:200], labels[:200]), (rows[200:], labels[200:])), rows


@pytest.mark.parametrize(
    "labels", [np.array(3.0), np.zeros((400, 4)), np.full((400, 2), "a"), np.zeros(5, int)]
)
@pytest.mark.parametrize("name", ["memorise", "report", "audit", "evaluate", "gate"])
def test_labels_that_are_not_one_per_row_are_refused(
    calibrated: tuple[Model, torch.Tensor], name: str, labels: Any
) -> None:
    model, rows = calibrated
    ask: dict[str, Callable[[], object]] = {
        "memorise": lambda: model.memorise(rows, labels),
        "report": lambda: model.report((rows, labels)),
        "audit": lambda: totalcal.audit(model, rows, labels),
        "evaluate": lambda: totalcal.evaluate(model, (rows, labels)),
        "gate": lambda: totalcal.Gate.fit(model, rows, labels),
    }
    with pytest.raises(InputError):
        ask[name]()


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_that_are_no_class_are_refused(model: TuringProcess, data: Batch, label: int) -> None:
    labels = data.labels.clone()
    labels[2] = label
    with pytest.raises(LabelError, match="0 … 2"):
        model(data.inputs, labels)


def test_labels_of_another_type_or_length_are_refused(model: TuringProcess, data: Batch) -> None:
    with pytest.raises(LabelError, match="int64"):
        model(data.inputs, data.labels.float())
    with pytest.raises(ShapeError, match="labels"):
        model(data.inputs, data.labels[:-1])


def test_a_backbone_of_the_wrong_width_is_refused(name: str, data: Batch) -> None:
    model = MODELS[name](nn.Linear(4, 7), num_classes=3)
    with pytest.raises(ShapeError, match="num_classes is 3"):
        model(data.inputs, data.labels)


def test_a_backbone_that_does_not_flatten_is_refused(name: str, data: Batch) -> None:
    model = MODELS[name](nn.Sequential(nn.Linear(4, 3), nn.Unflatten(1, (3, 1))), num_classes=3)
    with pytest.raises(ShapeError, match="Flatten"):
        model(data.inputs, data.labels)


def test_fewer_than_two_classes_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="num_classes ≥ 2"):
        MODELS[name](nn.Linear(4, 1), num_classes=1)


def test_no_inputs_at_all_are_refused(model: TuringProcess) -> None:
    with pytest.raises(InputError, match="at least one"):
        model(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))


def test_a_context_is_taken_only_by_models_that_use_one(model: TuringProcess, data: Batch) -> None:
    if model.context_use is ContextUse.NONE:
        with pytest.raises(ContextError, match="no context"):
            model.predict(data.inputs, context=data)
    if model.context_use is ContextUse.REQUIRED:
        with pytest.raises(ContextError, match="context"):
            model.predict(data.inputs)
    if model.context_use is ContextUse.OPTIONAL:
        assert model.predict(data.inputs, context=data).probabilities.shape == (len(data.labels), 3)


def test_a_context_of_less_than_no_rows_is_refused(model: TuringProcess, data: Batch) -> None:
    with pytest.raises(ContextError):
        model(data.inputs, data.labels, context=-1)


@pytest.mark.parametrize("rows", [1, 5])
def test_the_context_of_a_short_last_batch_is_what_there_is(
    model: TuringProcess, data: Batch, rows: int
) -> None:
    """Models whose loss is that of the rows after the context keep one row for it."""
    inputs, labels = data.inputs[:rows], data.labels[:rows]
    before = copy.deepcopy(model.state_dict())
    found = model(inputs, labels, context=16, generator=torch.Generator().manual_seed(0))
    model.load_state_dict(before)
    is_last = isinstance(model.latent, TargetLatent)
    alike = model(inputs, labels, context=rows - is_last, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(found.total(examples=30), alike.total(examples=30))
    assert found.total(examples=30).isfinite()


def test_a_negative_number_of_draws_is_refused(model: TuringProcess, data: Batch) -> None:
    context = data if model.context_use is ContextUse.REQUIRED else None
    with pytest.raises(InputError, match="draws"):
        model.predict(data.inputs, draws=-1, context=context)
