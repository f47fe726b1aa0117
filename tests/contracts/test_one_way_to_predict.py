"""One signature and one prediction: process, model, file, estimator, baseline, external predictor, export."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import totalcal
from totalcal import MODELS, Batch, BNNClassifier, Gate, evaluate
from totalcal.baselines import Ensemble, MCDropout, OODScored, temperature_scaled
from totalcal.decisions.rules import Coverage
from totalcal.estimators import Pipeline
from totalcal.files.predicting.exported import ExportedModel
from totalcal.scores import ExternalPredictor, from_arrays, from_module, from_sklearn
from totalcal.types import BY_MOMENTS, DETERMINISTIC, Predictive, Sampling

CLASSES, ROWS = 3, 60


def data() -> Batch:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(ROWS) % CLASSES
    return Batch(2 * torch.eye(CLASSES, 4)[labels] + torch.randn(ROWS, 4, generator=generator), labels)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, CLASSES)).eval()


def process(name: str = "etp") -> Any:
    torch.manual_seed(0)
    return MODELS[name](net(), CLASSES).eval()


@cache
def estimator() -> BNNClassifier:
    rows = data()
    return BNNClassifier(max_epochs=3, random_state=0).fit(rows.inputs.numpy(), rows.labels.numpy())


PREDICTORS: dict[str, Callable[[], Any]] = {
    "process": process,
    "with a context": lambda: process("anp").given((data().inputs[:9], data().labels[:9])),
    "model": lambda: totalcal.Model(process()),
    "temperature": lambda: temperature_scaled(process(), data()),
    "ensemble": lambda: Ensemble([process(), process()]),
    "MC dropout": lambda: MCDropout(net(), "logits"),
    "OOD scores": lambda: OODScored(process(), data(), ["energy"]),
    "net": lambda: from_module(net(), "logits"),
    "arrays": lambda: from_arrays("logits"),
    "function": lambda: ExternalPredictor(lambda rows: rows[:, :CLASSES], "logits"),
    "estimator": lambda: from_sklearn(estimator()),
}


@pytest.fixture(params=PREDICTORS)
def predictor(request: pytest.FixtureRequest) -> Any:
    return PREDICTORS[request.param]()


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()][
        1:
    ]


def test_every_predictor_has_the_same_signature(predictor: Any) -> None:
    expected = parameters(process().predict)
    assert [name for name, *_ in expected] == ["draws", "seed", "context"]
    assert parameters(predictor.predict) == expected
    assert parameters(estimator().predict_distribution) == expected
    for unbound in (ExportedModel.predict, Pipeline.predict_distribution):
        assert parameters(unbound)[1:] == expected  # beside `self`


def test_a_row_s_prediction_is_a_function_of_the_row_and_the_seed(predictor: Any) -> None:
    rows, order = data().inputs, torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    whole = predictor.predict(rows, draws=4, seed=3).belief.mean
    parts = [predictor.predict(part, draws=4, seed=3).belief.mean for part in rows[order].split(7)]
    torch.testing.assert_close(torch.cat(parts, 1), whole[:, order], rtol=1e-5, atol=1e-7)


def test_every_prediction_says_how_it_was_made_and_so_does_its_verdict(predictor: Any) -> None:
    rows = data()
    found = predictor.predict(rows.inputs)
    assert isinstance(found, Predictive)
    assert found.sampling in (DETERMINISTIC, BY_MOMENTS, Sampling(10, 0))
    verdict = evaluate(predictor, rows)
    assert verdict.sampling == found.sampling
    assert str(found.sampling) in str(verdict)
    np.testing.assert_allclose(verdict.observed.test.probabilities, found.probabilities, rtol=1e-6, atol=1e-9)


def test_a_gate_asks_for_what_is_judged_and_deployed(predictor: Any) -> None:
    rows = data()
    gate = Gate.fit(predictor, rows.inputs, rows.labels, rule=Coverage(0.8))
    assert gate.sampling == predictor.predict(rows.inputs).sampling
    assert gate(predictor.predict(rows.inputs)).verdicts == gate.decide(predictor, rows.inputs).verdicts


def test_what_is_judged_is_what_a_saved_file_answers(tmp_path) -> None:
    rows = data()
    for measured in (False, True):
        model = process("bnn")
        if measured:
            model.measure_default_draws(rows.inputs)
        totalcal.save(model, tmp_path / "it.totalcal")
        saved = totalcal.load(tmp_path / "it.totalcal", backbone=net())
        verdict, of_file = evaluate(model, rows), evaluate(saved, rows)
        assert verdict.sampling == of_file.sampling == (BY_MOMENTS if measured else Sampling(10, 0))
        assert verdict.nll == pytest.approx(of_file.nll, rel=1e-6)
        assert saved.predict(rows.inputs.numpy()).sampling == verdict.sampling
