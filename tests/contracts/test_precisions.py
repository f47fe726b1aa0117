"""A trained net of any precision becomes any model: nothing ends in a type error of torch's own."""

import pytest
import torch
from torch import nn

from totalcal import MODELS, Gate, TuringProcess, calibrate, evaluate, remember
from totalcal.types import Batch, ContextUse

PRECISIONS = [torch.float16, torch.bfloat16, torch.float64]
CLASSES = 3


def data(dtype: torch.dtype, rows: int = 120) -> Batch:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (rows,), generator=generator)
    centres = 2 * torch.eye(CLASSES, 4)
    return Batch((centres[labels] + torch.randn(rows, 4, generator=generator)).to(dtype), labels)


def net(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return (
        nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES))
        .to(dtype)
        .eval()
    )


def judged(model: TuringProcess, rows: Batch):
    return (
        model.given(Batch(rows.inputs[:9], rows.labels[:9]))
        if model.context_use is ContextUse.REQUIRED
        else model
    )


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_of_a_net_trains_predicts_and_decides(name: str, dtype: torch.dtype) -> None:
    rows = data(dtype)
    model = MODELS[name](net(dtype), CLASSES)
    model.train()(rows.inputs, rows.labels, 10).total(examples=120).backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())
    model.absorb(model.encode(rows.inputs[:20]).detach(), rows.labels[:20])
    model.eval()
    predictor = judged(model, rows)
    for draws in (0, 4, "moments"):
        found = predictor.predict(rows.inputs, draws=draws).probabilities
        torch.testing.assert_close(found.sum(-1), torch.ones(120).double())
    context = None if predictor is model else (rows.inputs[:9], rows.labels[:9])
    assert model.log_joint(rows.inputs[:3], rows.labels[:3], context=context) < 0
    model.measure_default_draws(rows.inputs, context)
    gate = Gate.fit(predictor, rows.inputs, rows.labels)
    assert gate.decide(predictor, rows.inputs).accepted.mean() > 0.5
    assert evaluate(predictor, (rows.inputs, rows.labels), {"far": 30 * rows.inputs}).nll > 0


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_a_memory_and_predictions_from_any_precision(dtype: torch.dtype) -> None:
    rows = data(dtype, 200)
    model = MODELS["etp"](net(dtype), CLASSES).eval()
    expected = model.predict(rows.inputs.double()).probabilities
    remember(model, (rows.inputs[:100], rows.labels[:100]), (rows.inputs[100:], rows.labels[100:]))
    found = model.predict(rows.inputs)
    torch.testing.assert_close(found.probabilities, expected, rtol=0, atol=1e-6)
    assert ((found.familiarity > 0) & (found.familiarity <= 1)).all()
    model.memorise(rows.inputs[:60], rows.labels[:60], name="again")
    assert model.predict(rows.inputs).probabilities.isfinite().all()


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_a_net_of_any_precision_is_calibrated(dtype: torch.dtype) -> None:
    rows, more, plain = data(dtype, 200), data(dtype, 120), net(dtype)
    held_out = more.inputs + 0.01, more.labels
    model = calibrate(plain, (rows.inputs, rows.labels), held_out, progress=False)
    prediction = model.predict(rows.inputs)
    assert prediction.probabilities.isfinite().all()
    assert len(prediction.decision) == 200
