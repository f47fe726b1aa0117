"""Accept, ask, not my domain: what `calibrate` decides unless something else is chosen."""

import numpy as np
import pytest
import torch

from totalcal.decisions.deciding import HeldOut, decide
from totalcal.decisions.gate import ACCEPT, ASK, NOT_MY_DOMAIN, Gate
from totalcal.errors import GateError
from totalcal.types import DETERMINISTIC, Familiarity, PointMass, Predictive, Sampling

ALPHA, BETA = 0.1, 0.1


def three_verdicts(prediction, labels, alpha=0.05, beta=0.05):
    return decide(None, HeldOut(prediction, labels, prediction, labels, range(3)), alpha, beta)


def world(rows, noise, classes=3):
    """What is difficult is doubtful and unfamiliar, so that the verdicts depend on each other."""
    difficulty = noise.normal(size=rows)
    logits = noise.normal(size=(rows, classes)) * (3 - difficulty[:, None])
    odds = np.exp(logits - logits.max(1, keepdims=True))
    labels = (odds.cumsum(1) < noise.random((rows, 1)) * odds.sum(1, keepdims=True)).sum(1)
    return logits, labels, difficulty + noise.normal(size=rows)


def predicted(logits, statistic, calibration):
    """As a memory whose familiarity is a rank among `calibration`."""
    count = (calibration[None] >= statistic[:, None]).sum(1)
    p_value = torch.from_numpy((1 + count) / (len(calibration) + 1))
    known = torch.from_numpy(statistic)
    domain = Familiarity(p_value, known, p_value, p_value, known, known)
    return Predictive(PointMass(torch.from_numpy(logits)[None]), DETERMINISTIC, domain)


def simulated(repetitions, rows, alpha=ALPHA, beta=BETA, tied=False):
    """Mean rates over held-out sets, and their standard errors."""
    found = []
    for seed in range(repetitions):
        noise = np.random.default_rng(seed)
        logits, labels, statistic = world(rows + 2000, noise)
        if tied:
            statistic = statistic.round(0)
        own = statistic[:rows]
        policy = three_verdicts(predicted(logits[:rows], own, own), labels[:rows], alpha, beta)
        verdicts = np.array(policy(predicted(logits[rows:], statistic[rows:], own)).verdicts)
        right = logits[rows:].argmax(1) == labels[rows:]
        familiar = verdicts != NOT_MY_DOMAIN
        found.append([(~familiar).mean(), (verdicts[familiar & right] == ASK).mean()])
    return np.mean(found, 0), np.std(found, 0) / np.sqrt(repetitions)


@pytest.mark.parametrize("rows", [60, 300])
def test_both_rates_hold_on_average_over_held_out_sets(rows):
    rates, errors = simulated(40, rows)
    assert (rates < np.array([ALPHA, BETA]) + 3 * errors).all()
    assert (rates > np.array([ALPHA, BETA]) / 2).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("rows", [60, 100, 400, 2000])
def test_both_rates_hold_over_five_hundred_held_out_sets(rows, tied):
    rates, errors = simulated(500, rows, tied=tied)
    assert (rates < np.array([ALPHA, BETA]) + 3 * errors).all()


def test_a_familiar_verdict_takes_precedence_and_every_row_has_one():
    noise = np.random.default_rng(0)
    logits, labels, statistic = world(500, noise)
    prediction = predicted(logits, statistic, statistic)
    policy = three_verdicts(prediction, labels)
    found = policy(prediction)
    assert set(found.verdicts) == {ACCEPT, ASK, NOT_MY_DOMAIN}
    assert (found.accepted == (np.array(found.verdicts) == ACCEPT)).all()
    assert all(
        bool(reason) != accepted for reason, accepted in zip(found.reasons, found.accepted, strict=True)
    )
    assert (np.array(found.verdicts) == NOT_MY_DOMAIN).tolist() == (prediction.familiarity <= 0.05).tolist()


def test_too_few_right_answers_set_no_bar_and_are_said_with_numbers():
    logits, labels, statistic = world(30, np.random.default_rng(0))
    prediction = predicted(logits, statistic, statistic)
    policy = three_verdicts(prediction, labels)
    assert [bar.verdict for bar in policy.bars] == [NOT_MY_DOMAIN]
    assert "39" in policy.promise


def test_too_few_rows_for_a_familiarity_are_said_with_numbers():
    logits, labels, statistic = world(15, np.random.default_rng(0))
    with pytest.raises(GateError, match=r"19.*15.*39"):
        three_verdicts(predicted(logits, statistic, statistic), labels)


def test_without_a_memory_there_are_two_verdicts():
    logits, labels, _ = world(400, np.random.default_rng(0))
    prediction = Predictive(PointMass(torch.from_numpy(logits)[None]), DETERMINISTIC)
    policy = three_verdicts(prediction, labels)
    assert set(policy(prediction).verdicts) == {ACCEPT, ASK}


def test_it_is_the_same_after_a_file():
    logits, labels, statistic = world(100, np.random.default_rng(0))
    policy = three_verdicts(predicted(logits, statistic, statistic), labels)
    assert Gate.from_json(policy.as_json()) == policy


def test_predictions_of_other_draws_are_refused():
    logits, labels, statistic = world(100, np.random.default_rng(0))
    policy = three_verdicts(predicted(logits, statistic, statistic), labels)
    other = Predictive(PointMass(torch.zeros(1, 4, 3)), Sampling(10, 0))
    with pytest.raises(GateError, match="draws"):
        policy(other)
