import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn
from torch.nn import functional as F

import totalcal
from totalcal.calibration.splitting import FewRowsWarning, OverlapWarning
from totalcal.errors import InputError, LabelError, ShapeError
from totalcal.files.container import summary

CENTRES = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 2.5]])


def drawn(rows, seed):
    """Three overlapping Gaussians, whose true posterior is known."""
    noise = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (rows,), generator=noise)
    return CENTRES[labels] + torch.randn(rows, 2, generator=noise), labels


def too_sure():
    """Three times the logits of the true posterior."""
    net = nn.Linear(2, 3)
    with torch.no_grad():
        net.weight.copy_(3 * CENTRES)
        net.bias.copy_(-1.5 * CENTRES.square().sum(1))
    return net


def calibrated(rows=300, seed=1, **options):
    return totalcal.calibrate(too_sure(), drawn(500, 0), drawn(rows, seed), progress=False, **options)


@pytest.fixture(scope="module")
def model():
    return calibrated()


def test_a_net_that_is_three_times_too_sure_gives_the_true_posterior_afterwards(model):
    inputs, _ = drawn(2000, 9)
    truth = (inputs @ CENTRES.T - 0.5 * CENTRES.square().sum(1)).softmax(1)
    before = (too_sure()(inputs).softmax(1) - truth).abs().mean()
    assert (model.predict(inputs).probabilities - truth).abs().mean() < before / 2


def test_what_is_far_away_is_not_its_domain_and_says_why(model):
    prediction = model.predict(torch.full((3, 2), 50.0))
    assert prediction.decision == ["not my domain"] * 3
    assert all("familiarity" in reason for reason in prediction.why)


def test_where_classes_overlap_it_asks(model):
    prediction = model.predict(drawn(2000, 9)[0])
    verdicts, entropy = np.array(prediction.decision), prediction.entropy.numpy()
    assert (verdicts == "ask").sum() > 50
    assert entropy[verdicts == "ask"].min() > entropy[verdicts == "accept"].max()


def test_the_net_is_left_as_it_is():
    net = too_sure().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    totalcal.calibrate(net, drawn(200, 0), drawn(100, 1), progress=False)
    assert net.training
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


def test_the_order_of_the_held_out_rows_does_not_matter(model):
    inputs, labels = drawn(300, 1)
    order = torch.randperm(300)
    other = totalcal.calibrate(too_sure(), drawn(500, 0), (inputs[order], labels[order]), progress=False)
    rows, _ = drawn(100, 9)
    assert torch.allclose(other.predict(rows).probabilities, model.predict(rows).probabilities, atol=1e-6)
    assert other.predict(rows).decision == model.predict(rows).decision


def test_a_file_gives_the_same_model_back(model, tmp_path):
    named = calibrated(classes=["a", "b", "c"])
    named.save(tmp_path / "it.totalcal")
    again = totalcal.load(tmp_path / "it.totalcal", backbone=nn.Linear(2, 3))
    rows, _ = drawn(100, 9)
    first, second = named.predict(rows), again.predict(rows)
    assert torch.equal(first.probabilities, second.probabilities)
    assert (first.labels == second.labels).all()
    assert first.decision == second.decision
    assert first.why == second.why
    assert str(again) == str(named)
    assert torch.equal(first.set(0.8), second.set(0.8))


def test_it_tells_which_rows_served_what_and_what_is_promised(model):
    story = str(model)
    for said in ("150 fit", "500 training rows", "5%", "not my domain", "ask", "NLL"):
        assert said in story


def test_too_few_rows_are_said_with_numbers_at_once():
    with pytest.warns(FewRowsWarning, match="hold out 67"):
        model = calibrated(rows=40)
    assert any("39 correct answers" in promise for promise in model.summary.promises)
    with pytest.raises(InputError, match="there are 5 held-out rows"):
        calibrated(rows=5)


@pytest.mark.parametrize("rates", [{}, {"alpha": 0.01}, {"beta": 0.02}, {"alpha": 0.2, "beta": 0.3}])
def test_with_as_many_rows_as_are_asked_for_nothing_is_missing(rates):
    with pytest.warns(FewRowsWarning) as said:
        calibrated(rows=12, **rates)
    wanted = int(re.search(r"hold out (\d+)", str(said[0].message))[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = calibrated(rows=wanted, **rates)
    assert [bar.verdict for bar in model.gate.bars] == ["not my domain", "ask"]


@pytest.mark.parametrize("rates", [{"alpha": 5}, {"beta": 0.0}])
def test_rates_that_are_no_shares_are_refused_before_a_row_is_looked_at(rates):
    (name,) = rates
    with pytest.raises(InputError, match=name):
        totalcal.calibrate(too_sure(), iter(()), iter(()), **rates)


def test_groups_are_kept_together():
    model = calibrated(groups=[k // 10 for k in range(300)])
    assert "groups" in model.summary.split


def test_held_out_rows_that_are_training_rows_are_warned_of_and_refused():
    with pytest.raises(InputError, match="training rows"):
        totalcal.calibrate(too_sure(), drawn(500, 0), drawn(500, 0), progress=False)
    (more, known), (inputs, labels) = drawn(300, 1), drawn(500, 0)
    mixed = torch.cat([more, inputs[:30]]), torch.cat([known, labels[:30]])
    with pytest.warns(OverlapWarning):
        model = totalcal.calibrate(too_sure(), (inputs, labels), mixed, progress=False)
    assert any("training rows" in note for note in model.summary.notes)


def test_a_net_that_gives_probabilities_is_noticed():
    with pytest.raises(InputError, match="softmax"):
        totalcal.calibrate(nn.Sequential(too_sure(), nn.Softmax(1)), drawn(200, 0), drawn(200, 1))


@pytest.mark.parametrize("steps", [0, 1])
def test_a_forest_is_told_where_to_go_in_a_pipeline_or_alone(steps):
    inputs, labels = (part.numpy() for part in drawn(200, 0))
    forest = make_pipeline(*[StandardScaler()] * steps, RandomForestClassifier(10)).fit(inputs, labels)
    with pytest.raises(InputError, match="calibrate_probabilities"):
        totalcal.calibrate(forest, (inputs, labels), (inputs, labels))


@pytest.mark.parametrize(
    ("change", "error", "advice"),
    [
        (lambda labels: F.one_hot(labels), LabelError, "argmax"),
        (lambda labels: labels.double() + 0.5, LabelError, "regression"),
        (
            lambda labels: (F.one_hot(labels) + F.one_hot(labels.flip(0))).clamp(max=1),
            LabelError,
            "multi-label",
        ),
        (lambda labels: labels.double(), LabelError, "long"),
        (lambda labels: np.array(["a", "b", "c"])[labels], LabelError, "classes="),
        (lambda labels: labels + 1, LabelError, "0 … 2"),
    ],
    ids=["one-hot", "not whole", "several", "floating", "names without an order", "from 1 on"],
)
def test_labels_that_are_no_class_numbers_are_refused_with_advice(change, error, advice):
    train, held_out = ((rows, change(labels)) for rows, labels in (drawn(200, 0), drawn(100, 1)))
    with pytest.raises(error, match=advice):
        totalcal.calibrate(too_sure(), train, held_out, progress=False)


def test_a_net_of_pixels_is_refused_with_a_way_that_works():
    net, pictures = nn.Conv2d(3, 4, 1), torch.randn(60, 3, 5, 5)
    truth = net(pictures).softmax(1).argmax(1)
    labels = truth.where(torch.rand(truth.shape) < 0.7, torch.randint(4, truth.shape))
    with pytest.raises(InputError, match="calibrate_probabilities"):
        totalcal.calibrate(net, (pictures[:30], labels[:30]), (pictures[30:], labels[30:]), progress=False)
    probabilities = net(pictures).softmax(1)
    of_pixels = probabilities.movedim(1, -1).flatten(0, -2)
    model = totalcal.calibrate_probabilities(of_pixels, labels.flatten())
    assert model.summary.after["nll"] < model.summary.before["nll"] + 0.01


def test_a_pipeline_of_scikit_learn_that_ends_in_an_estimator_of_ours_keeps_its_steps(tmp_path):
    def words(rows, seed):
        inputs, labels = drawn(rows, seed)
        left = np.where(inputs[:, 0] > 0, "right", "left")
        return pd.DataFrame({"x": inputs[:, 0], "y": inputs[:, 1], "side": left}), labels.numpy()

    table, labels = words(400, 0)
    encoder = make_column_transformer((OneHotEncoder(), ["side"]), remainder=StandardScaler())
    theirs = make_pipeline(encoder, totalcal.SoftmaxClassifier(max_epochs=5, random_state=0))
    model = totalcal.calibrate(theirs.fit(table, labels), (table, labels), words(200, 1), progress=False)
    rows, truth = words(200, 2)
    model.save(tmp_path / "it.totalcal")
    again = totalcal.load(tmp_path / "it.totalcal").predict(rows.to_numpy())
    assert (again.labels == truth).mean() > 0.7
    assert again.decision == model.predict(rows).decision


def test_unlabelled_rows_are_refused():
    with pytest.raises((LabelError, InputError)):
        totalcal.calibrate(too_sure(), drawn(200, 0), [drawn(100, 1)[0]])


def test_a_row_that_is_no_batch_is_refused_with_the_way_out(model):
    rows, _ = drawn(3, 4)
    with pytest.raises(ShapeError, match=r"row\[None\]"):
        model.predict(rows[0])
    assert len(model.predict(rows[0][None]).labels) == 1


def test_the_probabilities_of_a_forest_become_better(tmp_path):
    (inputs, labels), (rows, truth), (test, answers) = (
        drawn(n, seed) for n, seed in ((300, 0), (600, 1), (2000, 2))
    )
    forest = RandomForestClassifier(50, random_state=0).fit(inputs.numpy(), labels.numpy())
    model = totalcal.calibrate_probabilities(
        forest.predict_proba(rows.numpy()), truth, classes=["a", "b", "c"]
    )
    own = torch.from_numpy(forest.predict_proba(test.numpy()))
    model.save(tmp_path / "forest.totalcal")
    prediction = totalcal.load(tmp_path / "forest.totalcal").predict(own)
    assert F.nll_loss(prediction.probabilities.log(), answers) < F.nll_loss(
        own.clamp_min(1e-3).log(), answers
    )
    assert set(prediction.labels) == {"a", "b", "c"}
    assert set(prediction.decision) <= {"accept", "ask"}
    assert str(model).startswith("probabilities of 3 classes: a, b, c")  # and of no net


class Small(nn.Module):
    """A reader's own net."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
        )

    def forward(self, images):
        return self.layers(images)


def test_own_convolutional_net_from_training_to_a_file(tmp_path):
    images, labels = load_digits(return_X_y=True)
    images, labels = torch.tensor(images).float().reshape(-1, 1, 8, 8) / 16, torch.tensor(labels)
    net = Small()
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(net(images[:1000]), labels[:1000]).backward()
        optimizer.step()
    model = totalcal.calibrate(net, (images[:1000], labels[:1000]), (images[1000:1400], labels[1000:1400]))
    model.save(tmp_path / "digits.totalcal")
    loaded = totalcal.load(tmp_path / "digits.totalcal", backbone=Small())
    assert loaded.predict(1 - images[1400:]).decision.count("not my domain") > 0.9 * 397
    assert loaded.predict(images[1400:]).decision.count("not my domain") < 0.15 * 397


def test_a_table_from_raw_columns_to_a_file(tmp_path):
    (inputs, labels), (rows, truth) = (
        (x.numpy(), np.array(["a", "b", "c"])[y]) for x, y in (drawn(400, 0), drawn(300, 1))
    )
    pipeline = totalcal.Pipeline([("scale", StandardScaler()), ("etp", totalcal.ETPClassifier(max_epochs=5))])
    pipeline.fit(inputs, labels)
    model = totalcal.calibrate(pipeline, (inputs, labels), (rows, truth), progress=False)
    model.save(tmp_path / "table.totalcal")
    prediction = totalcal.load(tmp_path / "table.totalcal").predict(rows)
    assert (prediction.labels == truth).mean() > 0.8
    assert {"label", "confidence", "familiarity", "decision", "why"} <= set(prediction.to_frame().columns)


def test_a_new_class_is_learned_from_labelled_rows_by_its_name_and_forgotten_again(tmp_path):
    model = calibrated(classes=["a", "b", "c"])
    new = torch.tensor([9.0, 9.0]) + drawn(60, 5)[0] / 4
    model.memorise(new[:40], ["d"] * 40, name="the fourth")
    assert model.classes == ("a", "b", "c", "d")
    assert (model.predict(new[40:]).labels == "d").mean() > 0.9
    model.save(tmp_path / "it.totalcal")
    again = totalcal.load(tmp_path / "it.totalcal", backbone=nn.Linear(2, 3))
    assert (again.predict(new[40:]).labels == "d").mean() > 0.9
    again.forget("the fourth")
    assert again.classes == ("a", "b", "c")


def retained(model, path):
    model.save(path)
    return dict(summary(path))["retained"]


def test_a_file_says_what_of_the_data_it_retains_and_can_leave_single_rows_out(model, tmp_path):
    lean = calibrated(keep_rows=False)
    assert "of 256 single rows" in retained(model, tmp_path / "it.totalcal")
    assert "single rows" not in retained(lean, tmp_path / "lean.totalcal")
    again = totalcal.load(tmp_path / "lean.totalcal", backbone=nn.Linear(2, 3))
    rows, labels = drawn(100, 9)
    assert torch.equal(again.predict(rows).familiarity, model.predict(rows).familiarity)
    assert torch.equal(again.predict(rows).probabilities, model.predict(rows).probabilities)
    with pytest.raises(InputError, match="keep_rows"):
        again.memorise(rows + 20, torch.full((100,), 3))
    again.memorise(rows + 20, labels, "elsewhere")
    assert again.predict(rows[:5] + 20).decision.count("accept") >= 3


def test_a_model_that_predicts_from_rows_says_that_they_are_in_the_file(tmp_path):
    torch.manual_seed(0)
    model = totalcal.calibrate(totalcal.anp(nn.Linear(2, 3), 3), drawn(200, 0), drawn(100, 1), progress=False)
    assert "50 rows as they are" in retained(model, tmp_path / "it.totalcal")


def simulated(repetitions, rows):
    """False alarms, correct answers that are asked about, coverage of sets, and false discoveries and power
    of a selection from sixty rows, of which twenty are strange: means over held-out sets."""
    found = []
    for seed in range(repetitions):
        test, truth = drawn(2000, 10**6 + seed)
        model = calibrated(rows, seed + 1, alpha=0.1, beta=0.1)
        prediction = model.predict(test)
        verdicts = np.array(prediction.decision)
        right = (prediction.labels == truth.numpy()) & (verdicts != "not my domain")
        covered = prediction.set(0.9)[torch.arange(2000), truth].double().mean()
        strange = model.select_unfamiliar(torch.cat([test[:20] + 30, test[20:60]]), fdr=0.1).mask
        found.append(
            [
                (verdicts == "not my domain").mean(),
                (verdicts[right] == "ask").mean(),
                covered,
                strange[20:].sum() / max(strange.sum(), 1),
                strange[:20].mean(),
            ]
        )
    return np.mean(found, 0), np.std(found, 0) / np.sqrt(repetitions)


def check(rates, errors):
    print(f"{rates.round(4)} ± {errors.round(4)}")  # pytest -rP shows it
    assert rates[0] <= 0.1 + 3 * errors[0]
    assert rates[1] <= 0.1 + 3 * errors[1]
    assert rates[2] >= 0.9 - 3 * errors[2]
    assert rates[3] <= 0.1 + 3 * errors[3]
    assert rates[4] > 0.9


@pytest.mark.parametrize("rows", [100, 400, 2000])
def test_promises_hold_end_to_end_over_held_out_sets(rows):
    check(*simulated(40, rows))


@pytest.mark.exhaustive
@pytest.mark.parametrize("rows", [100, 400, 2000])
def test_promises_hold_end_to_end_over_five_hundred_held_out_sets(rows):
    check(*simulated(500, rows))
