"""The rows that a person should look at, with mistakes that were planted."""

import csv

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

import totalcal
from totalcal.calibration.audit import by_worth, confident_classes, leave_one_out, margins, near_duplicates
from totalcal.cli import app
from totalcal.errors import InputError


def test_confident_classes_are_those_of_the_definition():
    noise = np.random.default_rng(0)
    p, labels = noise.dirichlet(np.ones(4), 200), noise.integers(4, size=200)
    thresholds = [p[labels == each, each].mean() for each in range(4)]
    for row, found in enumerate(confident_classes(p, labels)):
        sure = [each for each in range(4) if p[row, each] >= thresholds[each]]
        assert found == (max(sure, key=lambda each: p[row, each]) if sure else labels[row])


def test_a_margin_is_that_to_the_largest_other():
    p = np.array([[0.5, 0.3, 0.2]] * 2)
    np.testing.assert_allclose(margins(p, np.array([0, 2])), [0.2, -0.3])


def test_one_row_left_out_is_a_fit_of_all_others():
    noise = np.random.default_rng(0)
    rows, labels = noise.normal(size=(40, 3)), noise.integers(2, size=40)
    targets = np.eye(2)[labels]
    widened = np.hstack([rows, np.ones((40, 1))])
    found = np.log(leave_one_out(rows, labels, 2))
    odds = found[:, 1] - found[:, 0]
    best = 0.0
    for ridge in (1e-4, 1e-3, 1e-2, 1e-1, 1.0):
        strength = ridge * np.linalg.eigvalsh(widened.T @ widened).mean()
        refits = []
        for row in range(40):
            others = np.arange(40) != row
            fitted = Ridge(strength, fit_intercept=False).fit(widened[others], targets[others])
            refits.append(np.diff(fitted.predict(widened[[row]])[0])[0])
        best = max(best, np.corrcoef(odds, refits)[0, 1])
    assert best == pytest.approx(1, abs=1e-9)  # but for the temperature


def test_copies_are_found_and_others_are_not():
    noise = np.random.default_rng(0)
    rows = noise.normal(size=(50, 4))
    found = near_duplicates(np.concatenate([rows, rows[:3], rows[7:8] + 1e-4]))
    np.testing.assert_array_equal(found, [*range(50), 0, 1, 2, 7])


@pytest.fixture(scope="module")
def digits():
    """A net that was trained on labels a tenth of which are wrong, and which ones."""
    inputs, labels = load_digits(return_X_y=True)
    noise = np.random.default_rng(0)
    order = noise.permutation(len(labels))
    inputs, labels = torch.tensor(inputs[order] / 16, dtype=torch.float32), labels[order]
    bad = noise.random(len(labels)) < 0.1
    noisy = torch.tensor(np.where(bad, (labels + noise.integers(1, 10, len(labels))) % 10, labels))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = totalcal.nets.mlp(64, 10)
        optimizer = torch.optim.AdamW(net.parameters(), 2e-3)
        for _ in range(15):
            for rows in torch.randperm(1200).split(64):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(net(inputs[rows]), noisy[rows]).backward()
                optimizer.step()
    parts = (inputs[:1200], noisy[:1200]), (inputs[1200:], noisy[1200:])
    return totalcal.calibrate(net, *parts, progress=False), *parts[0], bad[:1200]


def test_planted_mistakes_come_first(digits):
    model, inputs, labels, bad = digits
    found = totalcal.audit(model, inputs, labels).of("mislabelled")
    assert bad[found].mean() > 0.9
    assert bad[found].sum() > 0.6 * bad.sum()
    assert bad[found[:50]].mean() >= 0.98


def test_it_finds_as_many_first_as_the_least_probable_labels(digits):
    """Which is the order of cleanlab (`get_label_quality_scores`), of the same probabilities."""
    model, inputs, labels, bad = digits
    queue = totalcal.audit(model, inputs, labels)
    own = queue.probabilities[np.arange(len(bad)), labels.numpy()]
    rows = [each.row for each in queue.findings if each.reason in ("mislabelled", "ambiguous")]
    assert (np.diff(own[rows]) >= 0).all()
    rows = [each.row for each in queue.findings]
    assert bad[rows[: bad.sum()]].mean() >= bad[np.argsort(own)[: bad.sum()]].mean() - 0.01


def test_all_others_find_more_than_the_net_that_believes_its_labels(digits):
    model, inputs, labels, bad = digits
    count = bad.sum()

    def precision(audit):
        return bad[[each.row for each in audit.findings[:count]]].mean()

    by_others = precision(totalcal.audit(model, inputs, labels))
    assert by_others > precision(totalcal.audit(model, inputs, labels, seen=False))
    given = np.eye(10)[labels.numpy()] * 0.9 + 0.01  # what believes every label finds nothing
    assert totalcal.audit(model, inputs, labels, probabilities=given).of("mislabelled") == []


def test_copies_and_strange_rows_have_their_own_reasons(digits, tmp_path):
    model, inputs, labels, _ = digits
    rows = torch.cat([inputs[:200], inputs[:2], 30 * torch.randn(3, 64)])
    classes = torch.cat([labels[:200], labels[:1], (labels[1:2] + 1) % 10, labels[:3]])
    found = totalcal.audit(model, rows, classes, seen=False)
    assert set(found.of("copies with different labels")) == {1, 201}
    assert found.findings[0].reason == "copies with different labels"
    assert 200 in found.of("copy")
    assert {202, 203, 204} <= set(found.of("unfamiliar")) | set(found.of("mislabelled"))
    found.save(tmp_path / "it.csv")
    with (tmp_path / "it.csv").open() as file:
        assert [int(row["row"]) for row in csv.DictReader(file)] == [each.row for each in found.findings]
    with pytest.raises(InputError, match=r"\.html"):
        found.save(tmp_path / "it.pdf")


def test_a_page_shows_rows_and_pictures(digits):
    model, inputs, labels, _ = digits
    queue = totalcal.audit(model, inputs, labels)
    page = queue.to_html()
    assert "mislabelled" in page
    assert "What should a person look at?" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    pictures = inputs.reshape(-1, 1, 8, 8)
    drawn = totalcal.audit(GaussianNB(), pictures, labels, probabilities=queue.probabilities).to_html()
    assert (page.count("data:image"), drawn.count("data:image")) == (0, min(len(queue.findings), 200))


def test_the_command_writes_the_queue(digits, tmp_path):
    model, inputs, labels, _ = digits
    model.save(tmp_path / "it.totalcal")
    np.savez(tmp_path / "rows.npz", inputs=inputs[:300].numpy(), labels=labels[:300].numpy())
    told = CliRunner().invoke(
        app,
        [
            "audit",
            *(str(tmp_path / name) for name in ("it.totalcal", "rows.npz")),
            "-o",
            str(tmp_path / "q.html"),
        ],
    )
    assert told.exit_code == 0, told.output
    assert "300 rows" in told.output
    assert (tmp_path / "q.html").exists()


def test_a_classifier_of_scikit_learn_is_judged_by_what_others_say(tmp_path):
    inputs, labels = load_digits(return_X_y=True)
    noise = np.random.default_rng(0)
    bad = noise.random(len(labels)) < 0.1
    names = np.array([f"digit {each}" for each in range(10)])
    noisy = names[np.where(bad, (labels + noise.integers(1, 10, len(labels))) % 10, labels)]
    classifier = GaussianNB(var_smoothing=1e-2)
    queue = totalcal.audit(classifier, inputs, noisy)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    expected = cross_val_predict(classifier, inputs, noisy, cv=folds, method="predict_proba")
    np.testing.assert_allclose(queue.probabilities, expected)
    assert bad[queue.of("mislabelled")[:50]].mean() > 0.9
    assert np.mean([names[labels[each.row]] == each.suggested for each in queue.findings[:50]]) > 0.9
    with pytest.raises(InputError, match="calibrate"):
        totalcal.audit(torch.nn.Linear(64, 10), inputs, labels)


def test_labels_bought_in_the_order_of_the_queue_are_worth_more_than_others():
    inputs, labels = load_digits(return_X_y=True)
    gained = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(labels))
        start, pool, test = order[:60], order[60:1200], order[1200:]
        first = LogisticRegression(max_iter=100).fit(inputs[start] / 16, labels[start])
        queue = totalcal.audit(first, inputs[pool] / 16)
        assert len(queue.findings) == len(pool)
        by_queue = [pool[each.row] for each in queue.findings[:100]]
        right = []
        for bought in (by_queue, pool[:100]):
            rows = np.concatenate([start, bought])
            fitted = LogisticRegression(max_iter=100).fit(inputs[rows] / 16, labels[rows])
            right.append(fitted.score(inputs[test] / 16, labels[test]))
        gained.append(right[0] - right[1])
    assert np.mean(gained) > 0.02


def test_of_rows_without_labels_strange_ones_come_first_and_copies_last(digits):
    model, inputs, _, _ = digits
    rows = torch.cat([inputs[:100], 30 * torch.randn(3, 64), inputs[:2]])
    found = totalcal.audit(model, rows).findings
    assert {each.row for each in found} == set(range(105))
    assert {100, 101, 102} <= {each.row for each in found if each.reason == "unfamiliar"}
    assert {100, 101, 102} <= {each.row for each in found[:5]}
    assert {each.row % 103 for each in found[-2:]} == {0, 1}
    assert {103, 104} == {each.row for each in found if each.reason == "copy"}


def test_worth_is_doubt_times_the_distance_to_the_nearest_row_before():
    noise = np.random.default_rng(0)
    doubt, rows = noise.random(60), noise.normal(size=(60, 3))
    order = by_worth(doubt, rows).tolist()
    assert sorted(order) == list(range(60))
    for place in range(1, 60):
        distances = np.linalg.norm(rows[order[place:], None] - rows[order[:place]], axis=2).min(1)
        assert (doubt[order[place:]] * distances).argmax() == 0


def test_without_a_memory_rows_of_training_cannot_be_audited():
    sure = torch.tensor([[0.99, 0.01], [0.01, 0.99]]).repeat(100, 1)
    labels = torch.tensor([0, 1, 1, 0, 0, 1, 0, 1]).repeat(25)
    bare = totalcal.calibrate_probabilities(sure, labels)
    with pytest.raises(InputError, match="memory"):
        totalcal.audit(bare, sure, labels)
    found = totalcal.audit(bare, sure, labels, seen=False).of("mislabelled")
    assert sorted(found) == torch.nonzero(sure.argmax(1) != labels)[:, 0].tolist()
