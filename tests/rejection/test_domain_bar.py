"""The bar "not my domain" of a model with a memory of its domain: its verdicts, and its false-alarm rate."""

import numpy as np
import pytest
import torch

from totalcal import Gate, load, remember, save, softmax, train
from totalcal.backbones import mlp
from totalcal.rejection import FAMILIARITY_AND_ENTROPY, FalseRejection

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


def test_far_rows_are_not_my_domain_and_rows_between_classes_go_to_a_person(model):
    gate = Gate.fit(model, *rows_of(2, 1000), rule=FalseRejection(RATE), bars=FAMILIARITY_AND_ENTROPY)
    inside = rows_of(3, 200)[0]
    between = inside.clone()
    between[:, 0] = 0.1 * between[:, 1]
    far = between + torch.tensor([0.0, 20, 0, 0])  # between classes too, but that says nothing out there
    asked = gate.decide(model, between).verdicts
    assert asked.count("ask a person") > 0.75 * len(asked)
    decisions = gate.decide(model, far)
    assert set(decisions.verdicts) == {"not my domain"}
    assert decisions.reasons[0].startswith("unfamiliarity")
    assert gate.decide(model, inside).accepted.mean() > 0.8


@pytest.mark.parametrize("held_out", [150, 400])
def test_the_false_alarm_rates_hold_on_average_over_held_out_sets(model, held_out):
    inputs, labels = rows_of(3, 4000)
    prediction = Gate.fit(model, inputs, labels).predict(model, inputs)
    right = np.asarray(prediction.probabilities.argmax(1) == labels)
    alarms, rejections = [], []
    for split in range(SPLITS):
        gate = Gate.fit(
            model, *rows_of(100 + split, held_out), rule=FalseRejection(RATE), bars=FAMILIARITY_AND_ENTROPY
        )
        decisions = gate(prediction)
        alarms.append(np.mean(np.array(decisions.verdicts)[right] == "not my domain"))
        rejections.append(np.mean(~decisions.accepted[right]))
    margin = 3 * np.std(alarms) / SPLITS**0.5
    assert RATE / 10 - 1 / held_out - margin < np.mean(alarms) < RATE / 10 + margin
    assert np.mean(rejections) < RATE + 3 * np.std(rejections) / SPLITS**0.5


def test_the_bar_goes_along_with_the_model(model, tmp_path):
    gate = Gate.fit(model, *rows_of(2, 400), bars=FAMILIARITY_AND_ENTROPY)
    save(model, tmp_path / "it.totalcal", gate=gate)
    rows = 3 * rows_of(4, 50)[0]
    again = load(tmp_path / "it.totalcal")
    assert again.decide(rows).verdicts == gate.decide(model, rows).verdicts
