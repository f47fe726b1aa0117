"""Promises of gates, checked by simulation: every model × score × rule, ties and few rows included.

The population is a finite set of rows whose label probabilities are known, so that the true rates of a gate
are exact sums. Held-out rows are drawn from it with replacement and predicted in calls of their own.
"""

import csv
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.stats import binom

from totalcal import MODELS, Batch, Gate, Predictive, load, save
from totalcal.decisions import UNCERTAINTIES, Coverage, FalseRejection, Risk
from totalcal.errors import GateError
from totalcal.files.predicting.stream import predict_file
from totalcal.nets import mlp
from totalcal.parts.sampling import stochastic_layers
from totalcal.types import ContextUse, Sampling

SPLITS, DRAWS = 40, 5
RULES = {
    "false rejection": FalseRejection(0.1),
    "coverage": Coverage(0.8),
    "risk": Risk(0.55, confidence=0.8),
}


class Population(NamedTuple):
    rows: torch.Tensor
    truth: torch.Tensor  # label probabilities

    def draw(self, count, generator):
        chosen = torch.randint(len(self.rows), (count,), generator=generator)
        return self.rows[chosen], torch.multinomial(self.truth[chosen], 1, generator=generator).squeeze(1)


def population(rows):
    generator = torch.Generator().manual_seed(3)
    inputs = 2 * torch.randn(rows, 4, generator=generator)
    return Population(inputs, (2 * torch.randn(rows, 3, generator=generator)).softmax(1))


def build(name, **arguments):
    """A model whose draws matter, with a context where it needs one."""
    torch.manual_seed(1)
    model = MODELS[name](mlp(4, 3, [6]), 3, **arguments).eval()
    for layer in stochastic_layers(model.backbone):
        torch.nn.init.constant_(layer.weight_log_variance, -2.0)
    if name == "etp":
        model.latent.cell_variance = 2.0
    return model


CONTEXT = Batch(
    torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0, 1, 2])
)


def predictor(name):
    model = build(name)
    return model.given(CONTEXT) if model.context_use is ContextUse.REQUIRED else model


class Rates(NamedTuple):
    """What a gate does to the population."""

    right_rejected: float
    accepted: float
    risk: float


def rates(gate, prediction, truth):
    accepted = gate(prediction).accepted
    right = np.asarray(
        truth.gather(1, prediction.probabilities.argmax(1, keepdim=True)).squeeze(1), dtype=float
    )
    risk = (1 - right)[accepted].mean() if accepted.any() else 0.0
    return Rates(right[~accepted].sum() / right.sum(), accepted.mean(), risk)


def simulated(predict, people, rule, score):
    """The rates of many gates, each from other held-out rows; the population is predicted anew for each."""
    generator = torch.Generator().manual_seed(4)
    for _ in range(SPLITS):
        rows, labels = people.draw(80, generator)
        gate = Gate.fitted(predict(rows), labels, rule, score)
        yield rates(gate, predict(people.rows), people.truth)


def is_kept(name, found):
    """Whether the rates agree with the promise, at four standard errors or one in ten thousand."""
    if len(found) < 10:
        return True  # nothing was promised
    if name == "risk":
        broken = sum(each.risk > RULES["risk"].limit for each in found)
        return broken <= binom.ppf(0.9999, len(found), 1 - RULES["risk"].confidence)
    values = np.array(
        [each.right_rejected if name == "false rejection" else 1 - each.accepted for each in found]
    )
    promised = RULES[name].rate if name == "false rejection" else 1 - RULES[name].share
    return values.mean() <= promised + 4 * values.std() / np.sqrt(len(values))


@pytest.mark.parametrize("rows", [200, 8], ids=["many rows", "eight rows, over and over"])
@pytest.mark.parametrize("name", list(MODELS))
def test_every_gate_of_every_model_keeps_its_promise(name, rows):
    people, model = population(rows), predictor(name)
    generator = torch.Generator().manual_seed(4)
    everybody = model.predict(people.rows, draws=DRAWS)
    found = {}
    for split in range(SPLITS):
        inputs, labels = people.draw(25 if split % 2 else 80, generator)
        prediction = model.predict(inputs, draws=DRAWS)
        for score in UNCERTAINTIES:
            for rule in RULES:
                try:
                    gate = Gate.fitted(prediction, labels, RULES[rule], score)
                except GateError:
                    continue
                found.setdefault((score, rule), []).append(rates(gate, everybody, people.truth))
    assert len(found) >= 3  # the entropy under every rule, at least
    assert [which for which, each in found.items() if not is_kept(which[1], each)] == []


@pytest.mark.parametrize(("name", "score"), [("bnn", "reducible"), ("etp", "reducible")])
def test_a_gate_of_five_draws_refuses_ten_and_remakes_five(name, score):
    people, model = population(200), predictor(name)
    rows, labels = people.draw(80, torch.Generator().manual_seed(0))
    gate = Gate.fit(model, rows, labels, rule=RULES["coverage"], score=score, draws=5, seed=7)
    assert gate.sampling == Sampling(5, seed=7)
    for other in (
        model.predict(people.rows, draws=10, seed=7),
        model.predict(people.rows, draws=5, seed=8),
    ):
        with pytest.raises(GateError, match=r"5 draws of seed 7"):
            gate(other)
    again = gate(model.predict(people.rows, draws=5, seed=7))
    assert again.verdicts == gate.decide(model, people.rows).verdicts


@pytest.mark.parametrize("name", list(MODELS))
def test_the_decisions_are_the_same_through_a_file_and_on_the_command_line(name, tmp_path):
    people, model = population(200), build(name)
    context = CONTEXT if model.context_use is ContextUse.REQUIRED else None
    asked = predictor(name)
    rows, labels = people.draw(80, torch.Generator().manual_seed(0))
    np.savez(tmp_path / "rows.npz", people.rows.numpy())
    scores = [
        score for score in ("entropy", "reducible", "negative_log_concentration") if _has(asked, rows, score)
    ]
    for draws, score in [(5, score) for score in scores] + [(0, "entropy")]:
        gate = Gate.fit(asked, rows, labels, rule=RULES["coverage"], score=score, draws=draws, seed=2)
        save(model, tmp_path / "it.totalcal", gate=gate, context=context)
        saved = load(tmp_path / "it.totalcal")
        expected = gate.decide(asked, people.rows).verdicts
        assert "accept" in expected
        assert saved.gate == gate
        assert saved.predict(people.rows).decision == expected
        output = tmp_path / f"{score}{draws}.csv"
        predict_file(tmp_path / "it.totalcal", tmp_path / "rows.npz", output, chunk_size=33)
        with output.open(newline="") as file:
            assert [line["decision"] for line in csv.DictReader(file)] == expected


def _has(model, rows, score):
    values = UNCERTAINTIES[score](model.predict(rows, draws=5))
    return bool(values.max() > values.min())


def test_equal_inputs_are_not_above_their_own_threshold_whatever_rows_stand_beside_them():
    """In float32 a row's last digits depend on its neighbours; one row in two is the one at the threshold."""
    people, model = population(2), build("etp")
    rows, labels = people.draw(400, torch.Generator().manual_seed(0))
    gate = Gate.fit(model, rows, labels, rule=Coverage(0.99), batch_size=400)
    for size in (1, 3, 17, 100, 399):
        assert gate.decide(model, rows[:size]).accepted.all()


def test_predictions_of_external_predictors_still_do():
    logits = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    from totalcal.scores import as_predictive

    gate = Gate.fitted(as_predictive(logits, "logits"), logits.argmax(1), Coverage(0.8))
    assert 0.7 < gate(as_predictive(logits, "logits")).accepted.mean() < 0.9
    draws = as_predictive(logits.expand(4, -1, -1) + torch.randn(4, 200, 3), "logits")
    several = Gate.fitted(draws, logits.argmax(1), Coverage(0.8))
    assert isinstance(draws, Predictive)
    with pytest.raises(GateError, match="4 draws"):
        several(as_predictive(logits, "logits"))
