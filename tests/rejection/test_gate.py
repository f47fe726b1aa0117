import json

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from totalcal import Predictive
from totalcal.errors import GateError, UnknownNameError
from totalcal.rejection import OVERLAP_AND_DOMAIN, UNCERTAINTIES, Coverage, Gate, Risk, uncertainty
from totalcal.types import Dirichlet, PointMass


def dirichlets(rows, seed=0, classes=3):
    """Predictions whose certainty varies, labels drawn from them, so that they are calibrated."""
    generator = torch.Generator().manual_seed(seed)
    centre = 3 * torch.randn(1, rows, classes, generator=generator, dtype=torch.float64)
    spread = 0.5 * torch.randn(4, rows, classes, generator=generator, dtype=torch.float64)
    prediction = Predictive(Dirichlet(centre + spread))
    labels = torch.multinomial(prediction.probabilities, 1, generator=generator).squeeze(1)
    return prediction, labels


@pytest.mark.parametrize("score", list(UNCERTAINTIES))
def test_a_gate_on_any_score_rejects_five_per_cent_of_the_right_answers(score):
    prediction, labels = dirichlets(4000)
    gate = Gate.fitted(prediction, labels, bars=score)
    fresh, fresh_labels = dirichlets(4000, seed=1)
    right = np.asarray(fresh.probabilities.argmax(1) == fresh_labels)
    assert_allclose((~gate(fresh).accepted)[right].mean(), 0.05, atol=0.02)


def test_accepting_less_makes_fewer_mistakes():
    prediction, labels = dirichlets(4000)
    cost = Gate.fitted(prediction, labels, Coverage(0.5)).cost
    assert_allclose(cost.coverage, 0.5, atol=1e-3)
    assert cost.error_after < 0.7 * cost.error_before


def test_the_cost_counts_what_was_rejected():
    prediction, labels = dirichlets(500)
    gate = Gate.fitted(prediction, labels, Coverage(0.8))
    rejected = np.asarray(prediction.entropy > gate.bars[0].threshold)
    wrong = np.asarray(prediction.probabilities.argmax(1) != labels)
    assert_allclose(gate.cost.coverage, (~rejected).mean())
    assert_allclose(gate.cost.error_after, wrong[~rejected].mean())
    assert_allclose(gate.cost.right_rejected, rejected[~wrong].mean())
    assert_allclose(gate.cost.wrong_rejected, rejected[wrong].mean())


def test_two_bars_tell_a_foreign_input_from_overlapping_classes():
    prediction, labels = dirichlets(2000)
    gate = Gate.fitted(prediction, labels, bars=OVERLAP_AND_DOMAIN)
    overlap = [[12.0, 12.0, -5.0]]  # much evidence for two classes at once
    foreign = [[-3.0, -3.0, -3.0]]  # hardly any evidence
    clear = [[12.0, -5.0, -5.0]]
    decisions = gate(Predictive(Dirichlet(torch.tensor([overlap, foreign, clear]).transpose(0, 1))))
    assert decisions.verdicts == ["ask a person", "not my domain", "accept"]
    assert_array_equal(decisions.accepted, [False, False, True])
    assert decisions.reasons[0].startswith("data 0.5 is above")
    assert decisions.reasons[2] == ""


def test_two_bars_together_keep_the_rate_of_false_rejections():
    prediction, labels = dirichlets(4000)
    assert Gate.fitted(prediction, labels, bars=OVERLAP_AND_DOMAIN).cost.right_rejected <= 0.05


def test_a_term_that_the_model_lacks_is_refused():
    prediction = Predictive(PointMass(torch.randn(1, 50, 3)))
    with pytest.raises(GateError, match="has no such uncertainty"):
        Gate.fitted(prediction, prediction.probabilities.argmax(1), bars="irreducible")


def test_an_unknown_score_is_named_with_its_neighbour():
    prediction, labels = dirichlets(50)
    with pytest.raises(UnknownNameError, match="'entropy'"):
        Gate.fitted(prediction, labels, bars="entropi")


@pytest.mark.parametrize("rule", [Coverage(0.9), Risk(0.9)])
def test_a_gate_comes_back_from_json_as_it_was(rule):
    gate = Gate.fitted(*dirichlets(300), rule)
    assert Gate.from_json(json.loads(json.dumps(gate.as_json(), allow_nan=False))) == gate


def test_a_gate_tells_promise_and_cost_in_words():
    text = str(Gate.fitted(*dirichlets(300)))
    assert "at most 0.05 are rejected" in text
    assert "on 300 held-out rows it accepts" in text


def test_uncertainties_are_those_of_the_prediction():
    prediction, _ = dirichlets(20)
    terms = sum(uncertainty(prediction, name) for name in ("reducible", "irreducible", "data"))
    p = prediction.probabilities
    assert_allclose(terms, (p * (1 - p)).sum(1), rtol=1e-9)
