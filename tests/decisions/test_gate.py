"""Gates, and the bar "not my domain" of a model with a memory of its domain."""

import json

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from torch.utils.data import TensorDataset

from totalcal import ETPClassifier, Predictive, etp, load, remember, save, softmax, train
from totalcal.baselines import Ensemble, TemperatureScaled
from totalcal.decisions import (
    UNCERTAINTIES,
    Coverage,
    FalseRejection,
    Gate,
    Risk,
    uncertainty,
)
from totalcal.errors import GateError, InputError, LabelError, UnknownNameError
from totalcal.nets import mlp
from totalcal.scores import from_module
from totalcal.types import Dirichlet, PointMass, Sampling

from ..gates import both


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
    gate = Gate.fitted(prediction, labels, score=score)
    fresh, fresh_labels = dirichlets(4000, seed=1)
    right = np.asarray(fresh.probabilities.argmax(1) == fresh_labels)
    assert_allclose((~gate(fresh).accepted)[right].mean(), 0.05, atol=0.02)


def test_accepting_less_makes_fewer_mistakes():
    prediction, labels = dirichlets(4000)
    cost = Gate.fitted(prediction, labels, Coverage(0.5)).on_held_out
    assert_allclose(cost.coverage, 0.5, atol=1e-3)
    assert cost.error_after < 0.7 * cost.error_before


def test_the_cost_counts_what_was_rejected():
    prediction, labels = dirichlets(500)
    gate = Gate.fitted(prediction, labels, Coverage(0.8))
    rejected = np.asarray(prediction.entropy > gate.bars[0].threshold)
    wrong = np.asarray(prediction.probabilities.argmax(1) != labels)
    assert_allclose(gate.on_held_out.coverage, (~rejected).mean())
    assert_allclose(gate.on_held_out.error_after, wrong[~rejected].mean())
    assert_allclose(gate.on_held_out.right_rejected, rejected[~wrong].mean())
    assert_allclose(gate.on_held_out.wrong_rejected, rejected[wrong].mean())


def test_two_bars_tell_an_ood_input_from_overlapping_classes():
    prediction, labels = dirichlets(2000)
    domain, overlap = (
        Gate.fitted(prediction, labels, score=score) for score in ("mutual_information", "data")
    )
    gate = both(domain, overlap)
    overlap = [[12.0, 12.0, -5.0]]  # much evidence for two classes at once
    elsewhere = [[-3.0, -3.0, -3.0]]  # hardly any evidence
    clear = [[12.0, -5.0, -5.0]]
    rows = torch.tensor([overlap, elsewhere, clear]).transpose(0, 1).expand(4, -1, -1)  # as many draws
    decisions = gate(Predictive(Dirichlet(rows)))
    assert decisions.verdicts == ["ask", "not my domain", "accept"]
    assert_array_equal(decisions.accepted, [False, False, True])
    assert decisions.reasons[0].startswith("data 0.5 is above")
    assert decisions.reasons[2] == ""


def test_a_term_that_the_model_lacks_is_refused():
    prediction = Predictive(PointMass(torch.randn(1, 50, 3)))
    with pytest.raises(GateError, match="has no such uncertainty"):
        Gate.fitted(prediction, prediction.probabilities.argmax(1), score="irreducible")


def test_an_unknown_score_is_named_with_its_neighbour():
    prediction, labels = dirichlets(50)
    with pytest.raises(UnknownNameError, match="'entropy'"):
        Gate.fitted(prediction, labels, score="entropi")


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
    draws = prediction.belief.mean
    of_the_mean = (draws.var(0) / len(draws) if len(draws) > 1 else torch.zeros_like(p)).sum(1)
    assert_allclose(terms, (p * (1 - p)).sum(1) + of_the_mean, rtol=1e-9)


def test_a_gate_is_fitted_on_whatever_evaluate_takes():
    net = torch.nn.Linear(4, 3)
    rows = torch.randn(90, 4, generator=torch.Generator().manual_seed(0))
    model, labels = from_module(net, "logits"), net(rows).argmax(1)
    expected = Gate.fit(model, rows, labels)
    batches = list(zip(rows.split(20), labels.split(20), strict=True))
    for held_out in ((rows, labels), TensorDataset(rows, labels), batches):
        found = Gate.fit(model, held_out)
        assert_allclose(found.bars[0].threshold, expected.bars[0].threshold, rtol=1e-6)
        assert found.on_held_out == expected.on_held_out
    with pytest.raises(InputError, match="the held-out set has none"):
        Gate.fit(model, rows)


def test_labels_may_be_the_names_of_the_classes():
    prediction, labels = dirichlets(300)
    names = ("ant", "bee", "cat")
    named = [names[label] for label in labels]
    assert Gate.fitted(prediction, named, classes=names) == Gate.fitted(prediction, labels)
    with pytest.raises(LabelError, match=r"'dog'.*'ant'"):
        Gate.fitted(prediction, ["dog"] * 300, classes=names)


def test_an_estimator_is_fitted_and_asked_as_it_is():
    rows, labels = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    estimator = ETPClassifier(max_epochs=3, draws=4, random_state=0).fit(rows, names)
    gate = Gate.fit(estimator, rows, names, rule=Coverage(0.8))
    assert gate.sampling == Sampling(4, 0)
    assert 0.7 < gate.decide(estimator, rows).accepted.mean() < 0.9
    assert Gate.fit(estimator, rows, names, draws=10).sampling == Sampling(10, 0)


@pytest.mark.parametrize(
    "around", [lambda m: TemperatureScaled(m, 2.0, 1.0, 1.0), lambda m: Ensemble([m, m])]
)
def test_what_stands_around_a_process_shares_its_draws(around):
    torch.manual_seed(0)
    process, rows = etp(mlp(4, 3), 3), torch.randn(60, 4)
    model, labels = around(process), torch.randint(3, (60,))
    gate = Gate.fit(model, rows, labels, rule=Coverage(0.8), draws=3)
    assert gate.sampling == Sampling(3, 0)
    assert gate.decide(model, rows[:7]).verdicts == gate.decide(model, rows).verdicts[:7]
    assert Gate.fitted(model.predict(rows, draws=3), labels).sampling == gate.sampling


def test_a_net_in_train_mode_learns_nothing_from_the_held_out_rows():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3))
    model, rows = etp(net, 3, layers="none").train(), torch.randn(60, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gate = Gate.fit(model, rows, torch.randint(3, (60,)), rule=Coverage(0.8))
    gate.decide(model, rows)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("draws", [-1, 10**9, "many"])
def test_a_hostile_number_of_draws_is_refused(draws):
    content = Gate.fitted(*dirichlets(300)).as_json()
    with pytest.raises(GateError, match="0 to 100000 draws"):
        Gate.from_json({**content, "sampling": {"draws": draws, "seed": 0}})


SPLITS, RATE = 60, 0.1


def rows_of(seed, count):
    """Two classes that overlap: unit normals around −1 and 1 of the first of four columns."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=generator)
    rows = torch.randn(count, 4, generator=generator)
    rows[:, 0] += 2.0 * labels - 1.0
    return rows, labels


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    made = softmax(mlp(4, 2, [16]), num_classes=2)
    order = torch.Generator().manual_seed(1)
    train(made, *rows_of(0, 2000), epochs=8, learning_rate=0.01, batch_size=128, generator=order)
    made.eval()
    remember(made, rows_of(0, 2000), rows_of(1, 400))
    return made


def two_bars(model, inputs, labels):
    """The first takes a tenth of the rate."""
    domain = Gate.fit(model, inputs, labels, rule=RATE / 10, score="unfamiliarity")
    return both(domain, Gate.fit(model, inputs, labels, rule=0.9 * RATE))


def test_far_rows_are_not_my_domain_and_rows_between_classes_go_to_a_person(model):
    gate = two_bars(model, *rows_of(2, 1000))
    inside = rows_of(3, 200)[0]
    between = inside.clone()
    between[:, 0] = 0.1 * between[:, 1]
    far = between + torch.tensor([0.0, 20, 0, 0])  # between classes too, but that says nothing out there
    asked = gate.decide(model, between).verdicts
    assert asked.count("ask") > 0.7 * len(asked)
    decisions = gate.decide(model, far)
    assert set(decisions.verdicts) == {"not my domain"}
    assert decisions.reasons[0].startswith("unfamiliarity")
    assert gate.decide(model, inside).accepted.mean() > 0.8


@pytest.mark.parametrize("score", ["unfamiliarity", "entropy"])
def test_the_rate_holds_on_average_over_held_out_sets(model, score):
    inputs, labels = rows_of(3, 4000)
    prediction = Gate.fit(model, inputs, labels).predict(model, inputs)
    right = np.asarray(prediction.probabilities.argmax(1) == labels)
    rejections = []
    for split in range(SPLITS):
        gate = Gate.fit(model, *rows_of(100 + split, 150), rule=FalseRejection(RATE), score=score)
        rejections.append(np.mean(~gate(prediction).accepted[right]))
    margin = 3 * np.std(rejections) / SPLITS**0.5
    assert RATE - 1 / 100 - margin < np.mean(rejections) < RATE + margin


def test_the_bar_goes_along_with_the_model(model, tmp_path):
    gate = two_bars(model, *rows_of(2, 400))
    save(model, tmp_path / "it.totalcal", gate=gate)
    rows = 3 * rows_of(4, 50)[0]
    again = load(tmp_path / "it.totalcal")
    assert again.predict(rows).decision == gate.decide(model, rows).verdicts


@pytest.mark.parametrize("rule", ["5%", {"risk": 0.05}])
def test_what_is_no_rule_is_refused_with_those_that_are(rule):
    with pytest.raises(GateError, match=r"0\.05.*Risk"):
        Gate.fitted(*dirichlets(300), rule)


def test_a_rate_alone_is_a_rule_and_familiarity_is_its_statistic():
    inputs, labels = torch.randn(400, 4), torch.randint(3, (400,))
    model = softmax(torch.nn.Linear(4, 3), num_classes=3)
    remember(model, (inputs[:200], labels[:200]), (inputs[200:300], labels[200:300]))
    gate = Gate.fit(model, inputs[300:], model.predict(inputs[300:]).labels, rule=0.1, score="familiarity")
    assert 0.8 <= gate.on_held_out.coverage < 1
    assert not gate.decide(model, inputs[:5] + 100).accepted.any()
