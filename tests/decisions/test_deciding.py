"""Promises per class, thresholds by hand, rules and costs, each over many held-out sets."""

import json
from contextlib import suppress

import numpy as np
import pytest
import torch

import totalcal
from totalcal import Costs, Coverage, PerClass, Risk, Thresholds
from totalcal.decisions.costs import mean_with_interval
from totalcal.decisions.deciding import HeldOut, decide, group_classes
from totalcal.decisions.gate import ACCEPT, ASK, NOT_MY_DOMAIN, Gate
from totalcal.decisions.rules import rows_for
from totalcal.decisions.sets import PredictionSets, fewest_rows
from totalcal.errors import GateError, InputError, LabelError
from totalcal.files.predicting.answers import answers
from totalcal.types import DETERMINISTIC, Familiarity, PointMass, Predictive

ALPHA, BETA = 0.1, 0.1
SHARES = np.array([0.45, 0.3, 0.2, 0.03, 0.02])
"""Of five classes; the last two are rare."""


MANY = np.full(20, 1 / 20)
"""Of twenty classes: each is rare."""


def world(rows, noise, shares=SHARES):
    """Classes differ in how difficult and how strange they are, and labels follow the probabilities."""
    classes = len(shares)
    about = noise.choice(classes, size=rows, p=shares)
    sure = 6 - 6 * about / classes
    logits = noise.normal(size=(rows, classes)) + sure[:, None] * (np.arange(classes) == about[:, None])
    odds = np.exp(logits - logits.max(1, keepdims=True))
    labels = (odds.cumsum(1) < noise.random((rows, 1)) * odds.sum(1, keepdims=True)).sum(1)
    return logits, labels, noise.normal(size=rows) + 5 * about / classes


def predicted(logits, statistic, calibration):
    """As a memory whose familiarity is a rank among `calibration`."""
    p = torch.from_numpy((1 + (calibration[None] >= statistic[:, None]).sum(1)) / (len(calibration) + 1))
    t = torch.from_numpy(statistic)
    return Predictive(PointMass(torch.from_numpy(logits)[None]), DETERMINISTIC, Familiarity(p, t, p, p, t, t))


def held_out(rows, noise, fitting=300, tied=False, shares=SHARES):
    logits, labels, statistic = world(rows, noise, shares)
    if tied:
        logits, statistic = logits.round(), statistic.round()
    before, before_labels, _ = world(fitting, noise, shares)
    fitted = Predictive(PointMass(torch.from_numpy(before)[None]))
    prediction = predicted(logits, statistic, statistic)
    return HeldOut(
        prediction, labels, fitted, before_labels, tuple("abcdefghijklmnopqrst"[: len(shares)])
    ), statistic


def rates_by_class(repetitions, rows, choice, tied=False):
    """By predicted class: how often "not my domain", and among the others that are right how often "ask"."""
    found = []
    for seed in range(repetitions):
        noise = np.random.default_rng(seed)
        known, statistic = held_out(rows, noise, tied=tied)
        gate = decide(choice, known, ALPHA, BETA)
        logits, labels, strange = world(1500, noise)
        if tied:
            logits, strange = logits.round(), strange.round()
        verdicts = np.array(gate(predicted(logits, strange, statistic)).verdicts)
        best = logits.argmax(1)
        refused, asked = [], []
        for group in ([0], [1], [2], [3, 4]):
            inside = np.isin(best, group)
            familiar = inside & (verdicts != NOT_MY_DOMAIN)
            refused.append((verdicts[inside] == NOT_MY_DOMAIN).mean() if inside.any() else np.nan)
            right = familiar & (best == labels)
            asked.append((verdicts[right] == ASK).mean() if right.any() else np.nan)
        found.append([refused, asked])
    values = np.array(found)
    return np.nanmean(values, 0), np.nanstd(values, 0) / np.sqrt(repetitions)


def test_both_rates_hold_for_each_predicted_class_where_common_bars_fail_some():
    rates, errors = rates_by_class(40, 600, PerClass())
    assert (rates[:, :3] <= np.array([ALPHA, BETA])[:, None] + 3 * errors[:, :3]).all()
    common, _ = rates_by_class(10, 600, None)
    assert common[:, 2].max() > 0.15


@pytest.mark.exhaustive
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("rows", [150, 600, 3000])
def test_both_rates_hold_for_each_predicted_class_over_five_hundred_held_out_sets(rows, tied):
    rates, errors = rates_by_class(500, rows, PerClass(), tied)
    own = slice(0, 1) if rows == 150 else slice(0, 3)  # the others have no promise of their own, and say so
    assert (rates[:, own] <= np.array([ALPHA, BETA])[:, None] + 3 * errors[:, own]).all()


def test_rare_classes_are_taken_together_or_have_no_promise_and_both_are_said():
    known, _ = held_out(600, np.random.default_rng(0), fitting=3000)
    few, _ = held_out(150, np.random.default_rng(0))
    assert "together: d, e" in decide(PerClass(), known, ALPHA, BETA).promise
    assert "no promise of their own" in decide(PerClass(), few, ALPHA, BETA).promise
    fewer, _ = held_out(40, np.random.default_rng(0))
    assert "no predicted class has rows enough" in decide(PerClass(), fewer, ALPHA, BETA).promise


def test_groups_of_rare_classes_have_rows_enough_and_are_alike_in_difficulty():
    noise = np.random.default_rng(0)
    for needed in (20, 43, 5000):
        expected, difficulty = noise.exponential(30, size=60), noise.normal(size=60)
        groups = np.array(group_classes(expected / needed, difficulty))
        rows = np.bincount(groups, expected)
        assert (rows[1:] >= needed).all()
        assert (groups == 0).all() == (expected.sum() < needed)
        rare = np.flatnonzero(expected < needed)
        inside = groups[rare[np.argsort(difficulty[rare])]]
        assert (np.diff(inside) != 0).sum() == len(set(inside)) - 1  # each group is an interval of them
        assert len(set(groups[expected >= needed])) == (expected >= needed).sum()


def rates_of_groups(repetitions, rows, choice, tied=False):
    """Both rates over each group of predicted classes; and how far from them each class is on average."""
    found, by_class = [], []
    for seed in range(repetitions):
        noise = np.random.default_rng(seed)
        known, statistic = held_out(rows, noise, tied=tied, shares=MANY)
        gate = decide(choice, known, ALPHA, BETA)
        logits, labels, strange = world(3000, noise, MANY)
        if tied:
            logits, strange = logits.round(), strange.round()
        verdicts = np.array(gate(predicted(logits, strange, statistic)).verdicts)
        best = logits.argmax(1)
        group = best * 0 if gate.bars[-1].by_class is None else np.array(gate.bars[-1].by_class)[best]
        without = gate.bars[-1].threshold if len(set(group)) > 1 else None  # as is said
        refused, right = verdicts == NOT_MY_DOMAIN, best == labels
        rates = [
            (refused[group == each].mean(), _share(verdicts == ASK, ~refused & right & (group == each)))
            for each in set(group)
            if each != without
        ]
        found += [np.nanmean(rates, 0)] if rates else []
        by_class.append([refused[best == each].mean() for each in range(20)])
    values = np.array(found)
    spread = np.abs(np.mean(by_class, 0) - ALPHA).mean()
    return np.mean(values, 0), np.std(values, 0) / np.sqrt(repetitions), spread


def _share(flags, among):
    return flags[among].mean() if among.any() else np.nan


def test_groups_of_rare_classes_keep_both_rates_and_their_classes_are_nearer_to_them():
    rates, errors, spread = rates_of_groups(40, 300, PerClass())
    assert (rates <= np.array([ALPHA, BETA]) + 3 * errors).all()
    assert spread < 0.6 * rates_of_groups(10, 300, None)[2]


@pytest.mark.exhaustive
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("rows", [100, 300, 1000])
def test_groups_of_rare_classes_keep_both_rates_over_five_hundred_held_out_sets(rows, tied):
    rates, errors, _ = rates_of_groups(500, rows, PerClass(), tied)
    assert (rates <= np.array([ALPHA, BETA]) + 3 * errors).all()


@pytest.mark.parametrize("choice", [PerClass(), Thresholds({"a": 0.9}), Costs(1, 0.2, 5), Risk(0.2)])
def test_a_gate_of_any_choice_is_the_same_after_a_file(choice):
    known, _ = held_out(400, np.random.default_rng(0))
    gate = decide(choice, known, ALPHA, BETA)
    assert Gate.from_json(json.loads(json.dumps(gate.as_json()))) == gate
    assert all(bool(why) != accepted for accepted, _, why in zip(*gate(known.prediction), strict=True))


def risks(repetitions, rows, choice, tied=False):
    """The share of accepted answers that are wrong, of three predicted classes and of all; 0 if refused."""
    found = []
    for seed in range(repetitions):
        noise = np.random.default_rng(seed)
        known, statistic = held_out(rows, noise, tied=tied)
        with suppress(GateError):
            gate = decide(choice, known, ALPHA, BETA)
            logits, labels, strange = world(4000, noise)
            if tied:
                logits, strange = logits.round(), strange.round()
            accepted = gate(predicted(logits, strange, statistic)).accepted
            wrong, best = logits.argmax(1) != labels, logits.argmax(1)
            inside = [*(accepted & (best == each) for each in range(3)), accepted]
            found.append([wrong[each].mean() if each.any() else 0 for each in inside])
    return np.array(found)


def test_a_risk_per_class_is_kept_by_each_with_its_confidence():
    found = risks(40, 900, PerClass(Risk(0.1)))
    above = (found[:, :3] > 0.1 + 0.02).mean(0)  # .02: 4000 rows measure it
    assert len(found) == 40
    assert (above <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 40)).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("rows", [300, 900])
def test_a_risk_is_kept_over_five_hundred_held_out_sets(rows, tied):
    by_class = risks(500, rows, PerClass(Risk(0.1)), tied)[:, :3]
    of_all = risks(500, rows, Risk(0.1), tied)[:, 3]
    assert len(of_all) > 250
    assert ((by_class > 0.1 + 0.02).sum(0) <= 0.05 * 500).all()
    assert (of_all > 0.1 + 0.01).sum() <= 0.05 * 500


def shares_accepted(repetitions, rows, choice, tied=False):
    """Of new rows, for three predicted classes and over all: means over held-out sets and their errors."""
    found = []
    for seed in range(repetitions):
        noise = np.random.default_rng(seed)
        known, statistic = held_out(rows, noise, tied=tied)
        gate = decide(choice, known, ALPHA, BETA)
        logits, _, strange = world(2000, noise)
        if tied:
            logits, strange = logits.round(), strange.round()
        accepted, best = gate(predicted(logits, strange, statistic)).accepted, logits.argmax(1)
        found.append([*(accepted[best == each].mean() for each in range(3)), accepted.mean()])
    return np.mean(found, 0), np.std(found, 0) / np.sqrt(repetitions)


def test_a_coverage_is_that_of_all_inputs_unfamiliar_ones_included():
    means, errors = shares_accepted(40, 300, Coverage(0.8))
    assert 0.8 - 3 * errors[3] <= means[3] <= 0.83
    means, errors = shares_accepted(40, 600, PerClass(Coverage(0.7)))
    assert (means[:3] >= 0.7 - 3 * errors[:3]).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("rows", [40, 200, 1000])
def test_a_coverage_is_kept_over_five_hundred_held_out_sets(rows, tied):
    for share in (0.8, 1 - ALPHA):
        means, errors = shares_accepted(500, rows, Coverage(share), tied)
        assert means[3] >= share - 3 * errors[3]
    means, errors = shares_accepted(500, 600, PerClass(Coverage(0.7)), tied)
    assert (means[:3] >= 0.7 - 3 * errors[:3]).all()


def test_more_coverage_than_familiar_rows_allow_is_refused():
    known, _ = held_out(600, np.random.default_rng(0))
    for choice in (Coverage(0.95), PerClass(Coverage(0.95))):
        with pytest.raises(GateError, match="alpha"):
            decide(choice, known, ALPHA, BETA)
    bare = known._replace(prediction=Predictive(known.prediction.belief))
    assert decide(Coverage(0.95), bare, ALPHA, BETA).on_held_out.coverage >= 0.95


def test_a_risk_of_all_rows_needs_no_classes():
    known, _ = held_out(600, np.random.default_rng(0))
    assert "answered wrongly" in decide(Risk(0.2), known, ALPHA, BETA).promise
    with pytest.raises(GateError, match="no threshold"):
        decide(Risk(0.001), known, ALPHA, BETA)


def test_a_risk_that_all_answers_keep_accepts_all_of_them_and_goes_into_a_file(tmp_path):
    sure = torch.tensor([[0.97, 0.03], [0.04, 0.96]]).repeat(200, 1)
    labels = torch.tensor([0, 1]).repeat(200)
    model = totalcal.calibrate_probabilities(sure, labels, decisions=PerClass(Risk(0.2)))
    model.save(tmp_path / "it.totalcal")
    assert totalcal.load(tmp_path / "it.totalcal").predict(sure).decision == [ACCEPT] * 400


def test_thresholds_by_hand_are_those_of_the_predicted_class():
    known, _ = held_out(400, np.random.default_rng(0))
    bare = known._replace(prediction=Predictive(known.prediction.belief))
    found = decide(Thresholds({"a": 0.9, "b": 0.5}, default=0.7), bare, ALPHA, BETA)(bare.prediction)
    limits = np.array([0.9, 0.5, 0.7, 0.7, 0.7])[bare.prediction.probabilities.argmax(1)]
    np.testing.assert_array_equal(found.accepted, bare.prediction.confidence.numpy() >= limits)
    with pytest.raises(LabelError, match="z"):
        decide(Thresholds({"z": 0.9}), bare, ALPHA, BETA)


# --- sets ---


def covered(repetitions, rows, groups, tied=False):
    found = []
    for seed in range(repetitions):
        noise = np.random.default_rng(seed)
        logits, labels, _ = world(rows + 1500, noise)
        both = [
            Predictive(PointMass(torch.from_numpy(part.round() if tied else part)[None]))
            for part in (logits[:rows], logits[rows:])
        ]
        within = PredictionSets.fitted(both[0], labels[:rows], 0.9, groups=groups)(both[1])
        held = within[np.arange(1500), labels[rows:]]
        found.append([held[np.isin(labels[rows:], each)].mean() for each in ([0], [1], [2], [3, 4])])
    return np.nanmean(found, 0), np.nanstd(found, 0) / np.sqrt(repetitions)


def test_sets_cover_each_class_where_common_ones_fail_some():
    means, errors = covered(40, 400, (1, 2, 3, 0, 0))
    assert (means >= 0.9 - 3 * errors).all()
    assert covered(10, 400, ())[0].min() < 0.85


@pytest.mark.exhaustive
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("rows", [400, 2000])
def test_sets_cover_each_class_over_five_hundred_held_out_sets(rows, tied):
    means, errors = covered(500, rows, (1, 2, 3, 0, 0), tied)
    assert (means >= 0.9 - 3 * errors).all()


def covered_groups(repetitions, rows, tied=False):
    """The share of sets that hold the true class, for each group that rare classes make with rows enough."""
    found = []
    for seed in range(repetitions):
        noise = np.random.default_rng(seed)
        known, _ = held_out(rows, noise, tied=tied, shares=MANY)
        groups = known.groups_of_true(rows_for(0.1))
        sets = PredictionSets.fitted(known.prediction, known.labels, 0.9, groups=groups)
        logits, labels, strange = world(2000, noise, MANY)
        logits = logits.round() if tied else logits
        held = sets(predicted(logits, strange, strange))[np.arange(2000), labels]
        enough = [each for each, scores in enumerate(sets.by_group) if len(scores) >= fewest_rows(0.9)]
        of_row = np.array(groups)[labels]
        found += [held[of_row == each].mean() for each in enough if (of_row == each).any()]
    return np.mean(found), np.std(found) / np.sqrt(repetitions), len(found) / repetitions


def test_sets_cover_each_group_of_rare_classes():
    mean, error, groups = covered_groups(40, 200)
    assert mean >= 0.9 - 3 * error
    assert groups > 5


@pytest.mark.exhaustive
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("rows", [100, 300, 1000])
def test_sets_cover_each_group_of_rare_classes_over_five_hundred_held_out_sets(rows, tied):
    mean, error, _ = covered_groups(500, rows, tied)
    assert mean >= 0.9 - 3 * error


# --- costs ---


def test_costs_choose_what_is_least_by_hand():
    matrix = [[0, 1], [20, 0]]  # to call class 1 class 0 is dear
    costs = Costs(matrix, ask=0.5)
    rows = np.array([[0.9, 0.1], [0.99, 0.01], [0.5, 0.5]])
    np.testing.assert_array_equal(costs.answers(rows), [1, 0, 1])  # 20 · .1 against .9; 20 · .01 against .99
    np.testing.assert_allclose(costs.expected(rows), [0.9, 0.2, 0.5])
    known = HeldOut(
        Predictive(PointMass(torch.from_numpy(rows).log()[None])),
        np.array([0, 0, 1]),
        Predictive(PointMass(torch.zeros(1, 3, 2))),
        np.array([0, 0, 1]),
        (0, 1),
    )
    gate = decide(costs, known, ALPHA, BETA)
    assert gate(known.prediction).verdicts == [ASK, ACCEPT, ACCEPT]
    answered = Predictive(known.prediction.belief, gate=gate, classes=("ill", "well"))
    assert answered.labels.tolist() == ["well", "ill", "well"]


def test_a_table_gives_the_answer_of_least_cost():
    """To call 1 what is 0 costs 1; to call 0 what is 1 costs 90."""
    sure = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).repeat(100, 1)
    labels = torch.tensor([0, 1] * 4 + [1, 0]).repeat(20)
    model = totalcal.calibrate_probabilities(sure, labels, decisions=Costs([[0, 1], [90, 0]], ask=100))
    assert answers(model, sure[:2].numpy()).best == [1, 1] == model.predict(sure[:2]).labels.tolist()


def test_no_other_decision_is_expected_to_cost_less():
    """Accept, ask and each answer, for each row, against the rule; q as in the formula."""
    noise = np.random.default_rng(0)
    known, _ = held_out(500, noise)
    costs = Costs(noise.random((5, 5)) * (1 - np.eye(5)), ask=0.1, miss_ood=3, ood=0.01)
    gate = decide(costs, known, ALPHA, BETA)
    found = gate(known.prediction)
    p, q = (
        known.prediction.probabilities.numpy(),
        costs.probability_of_ood(known.prediction.familiarity.numpy()),
    )
    every = (1 - q)[:, None] * (p @ np.array(costs.wrong)) + q[:, None] * costs.miss_ood
    np.testing.assert_array_equal(found.accepted, every.min(1) <= costs.ask)
    refused = np.array(found.verdicts) == NOT_MY_DOMAIN
    np.testing.assert_array_equal(refused, q * costs.miss_ood > costs.ask)


def test_a_matrix_of_equal_costs_is_one_cost():
    known, _ = held_out(300, np.random.default_rng(1))
    one, other = (decide(Costs(wrong, 0.2), known, ALPHA, BETA) for wrong in (1.0, (1 - np.eye(5)).tolist()))
    assert one(known.prediction).verdicts == other(known.prediction).verdicts


def intervals(repetitions, rows, tied=False):
    """How often the interval of the held-out cost holds the cost of new rows, where few mistakes are dear."""
    held = []
    for seed in range(repetitions):
        noise = np.random.default_rng(seed)
        costs = Costs(10, ask=2)
        paid = []
        for count in (rows, 20_000):
            logits, labels, _ = world(count, noise)
            logits = logits.round() if tied else logits
            p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
            paid.append(costs.paid(p.argmax(1), costs.expected(p) <= costs.ask, labels, 5))
        _, low, high = mean_with_interval(paid[0], 10)
        held.append(low <= paid[1].mean() <= high)
    return np.mean(held)


def test_the_interval_of_the_held_out_cost_holds_the_cost_of_new_rows():
    assert intervals(40, 300) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 40)


@pytest.mark.exhaustive
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("rows", [100, 300])
def test_the_interval_holds_over_five_hundred_held_out_sets(rows, tied):
    assert intervals(500, rows, tied) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 500)


def test_costs_that_answer_nothing_or_are_none_are_refused():
    with pytest.raises(GateError, match="ever be answered"):
        Costs(1, ask=0.1, miss_ood=100, ood=0.01)
    for wrong in (-1, [[0, 1], [1]], [[0, 1, 2], [1, 0, 2]], [1, 2], "dear"):
        with pytest.raises(InputError):
            Costs(wrong)
    known, _ = held_out(50, np.random.default_rng(0))
    with pytest.raises(InputError, match="5 classes"):
        decide(Costs([[0, 1], [1, 0]]), known, ALPHA, BETA)


# --- one line for the user ---


def drawn(rows, seed):
    noise = torch.Generator().manual_seed(seed)
    centres = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 2.5]])
    labels = torch.randint(3, (rows,), generator=noise)
    return centres[labels] + torch.randn(rows, 2, generator=noise), labels


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (PerClass(), "each predicted class"),
        (Costs(10, ask=1, miss_ood=20, ood=0.01), "least expected cost"),
        (Risk(0.2), "answered wrongly"),
        (Thresholds({"one": 0.8}), "by hand"),
    ],
)
def test_calibrate_takes_any_choice_says_it_and_keeps_it_in_its_file(choice, said, tmp_path):
    net = torch.nn.Linear(2, 3)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[4.0, 0], [-4, 0], [0, 5]]))
        net.bias.copy_(torch.tensor([0, 0, -2.0]))
    model = totalcal.calibrate(
        net, drawn(300, 0), drawn(600, 1), decisions=choice, classes=["one", "two", "three"], progress=False
    )
    assert said in str(model)
    model.save(tmp_path / "it.totalcal")
    again = totalcal.load(tmp_path / "it.totalcal", backbone=torch.nn.Linear(2, 3))
    rows = drawn(200, 2)[0]
    assert again.predict(rows).decision == model.predict(rows).decision
    assert model.predict(rows + 60).decision == [NOT_MY_DOMAIN] * 200
    assert torch.equal(again.predict(rows).set(0.8), model.predict(rows).set(0.8))


def test_a_mistake_with_a_class_that_was_learned_later_costs_as_much_as_the_dearest():
    matrix = np.array([[0, 1, 2], [3, 0, 1], [1, 1, 0]])
    whole = np.full((4, 4), 3.0)
    whole[:3, :3] = matrix
    np.fill_diagonal(whole, 0)
    np.testing.assert_array_equal(Costs(matrix.tolist()).matrix(4), whole)
    net = torch.nn.Linear(2, 3)
    data, choice = (drawn(300, 0), drawn(600, 1)), Costs(matrix.tolist(), ask=0.5)
    model = totalcal.calibrate(net, *data, decisions=choice, progress=False)
    model.memorise(drawn(60, 2)[0] + 60, np.full(60, 3))
    found = model.predict(drawn(50, 3)[0] + 60)
    expected = found.probabilities.numpy() @ whole
    assert found.labels.tolist() == expected.argmin(1).tolist() == [3] * 50
    assert found.decision == np.where(expected.min(1) <= 0.5, ACCEPT, ASK).tolist()
