import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

import totalcal
from totalcal.errors import InputError
from totalcal.report.compare import bootstrap_difference
from totalcal.report.model_page import plain_auroc, plain_ece
from totalcal.scores import ece

CENTRES = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 2.5]])


def drawn(rows, seed):
    noise = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (rows,), generator=noise)
    return CENTRES[labels] + torch.randn(rows, 2, generator=noise), labels


@pytest.fixture(scope="module")
def model():
    net = nn.Linear(2, 3)
    with torch.no_grad():
        net.weight.copy_(4 * CENTRES)
        net.bias.copy_(-2 * CENTRES.square().sum(1))
    names = ["<b>", "two", "three"]
    return totalcal.calibrate(net, drawn(400, 0), drawn(300, 1), classes=names, progress=False)


@pytest.fixture(scope="module")
def report(model):
    return model.report(drawn(500, 2), ood={"far": drawn(200, 3)[0] + 20, "near": drawn(200, 4)[0] + 3})


def test_the_page_needs_nothing_else_and_escapes_what_a_user_wrote(report, tmp_path):
    report.save(tmp_path / "it.html")
    page = (tmp_path / "it.html").read_text()
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert "<b>, two" not in page
    for heading in ("In short", "Before and after", "Does it know its domain?", "Model card"):
        assert heading in page


def test_the_card_has_figures_promises_and_limits(report, tmp_path):
    report.save(tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text()
    for part in ("| NLL |", "| OOD AUROC, far |", "## Decisions", "at most 5%", "## Limits", "## Costs"):
        assert part in card


def test_each_set_says_how_many_of_its_rows_are_unlike_the_domain_and_unlike_its_classes(report):
    far = next(each for each in report.domains if each.name == "far")
    assert all((p <= 0.05).mean() == 1 for p in far.p_values.values())
    for p in report.after.p_values.values():
        assert (p <= 0.05).mean() < 0.1
    assert all(words in report.to_html() for words in ("not from here", "no class it knows"))


def test_the_card_is_one_of_hugging_face(report, model):
    hub = pytest.importorskip("huggingface_hub", reason="the extra `test` brings huggingface_hub")
    card = hub.ModelCard(report.to_markdown(), ignore_metadata_errors=False)
    found = {(each.dataset_name, each.metric_type): each.metric_value for each in card.data.eval_results}
    inputs, labels = drawn(500, 2)
    prediction = model.predict(inputs)
    right = (prediction.probabilities.argmax(1) == labels).double().mean()
    assert found["test rows", "accuracy"] == pytest.approx(float(right), abs=1e-5)
    far = model.predict(drawn(200, 3)[0] + 20).unfamiliarity
    told = roc_auc_score([0] * 500 + [1] * 200, torch.cat([prediction.unfamiliarity, far]))
    assert found["far", "roc_auc"] == pytest.approx(told, abs=1e-5)
    assert card.data.library_name == "totalcal"
    assert card.text.lstrip().startswith("# Model card")


def test_sets_are_shown_with_their_coverage_and_size(report):
    nine = next(cover for cover in report.covers if cover.promised == 0.9)
    assert nine.held == pytest.approx(0.9, abs=0.06)
    assert 1 <= nine.size <= 3
    assert "sets at 90%" in report.to_markdown()
    assert "hold the true class" in report.to_html()


def test_each_class_has_its_shares_of_verdicts_and_of_sets_that_hold_it(model, report):
    inputs, labels = drawn(500, 2)
    prediction = model.predict(inputs)
    answers, truth = prediction.probabilities.argmax(1).numpy(), labels.numpy()
    verdicts, within = np.array(prediction.decision), prediction.set(0.9).numpy()
    for place, found in enumerate(report.by_class):
        assert found.rows == (answers == place).sum()
        assert found.refused == (verdicts[answers == place] == "not my domain").mean()
        others = (answers == place) & (truth == place) & (verdicts != "not my domain")
        assert found.asked == (verdicts[others] == "ask").mean()
        assert found.held == within[truth == place, place].mean()
    assert "its set holds it" in report.to_html()


def test_what_decisions_cost_on_test_rows_is_said_with_an_interval():
    noise = torch.Generator().manual_seed(0)
    sure = torch.rand(900, 1, generator=noise)
    given, labels = torch.cat([sure, 1 - sure], 1), torch.bernoulli(1 - sure[:, 0], generator=noise).long()
    costs = totalcal.Costs([[0, 1], [9, 0]], ask=0.4)
    model = totalcal.calibrate_probabilities(given[:500], labels[:500], decisions=costs)
    report = model.report((given[500:], labels[500:]))
    prediction, matrix = model.predict(given[500:]), np.array([[0, 1], [9, 0]])
    answers = (prediction.probabilities.numpy() @ matrix).argmin(1)
    paid = matrix[labels[500:].numpy(), answers]
    decided = np.where(np.array(prediction.decision) == "accept", paid, 0.4)
    assert f"cost {decided.mean():.4g} per row" in report.to_markdown()
    assert f"to answer all would have cost {paid.mean():.4g}" in report.to_html()
    assert report.after.answers.tolist() == answers.tolist()


def test_a_net_that_was_too_sure_is_said_to_be_better_now(report):
    assert "NLL better" in report.verdict
    assert "0.0% of far" in report.verdict


def test_scores_that_calibration_left_as_they_were_are_said_to_be_unchanged():
    noise = torch.Generator().manual_seed(0)
    sure = torch.rand(400, 1, generator=noise)
    given, labels = torch.cat([sure, 1 - sure], 1), torch.bernoulli(1 - sure[:, 0], generator=noise).long()
    few = given[:90], labels[:90]  # too few to fit a temperature
    report = totalcal.calibrate_probabilities(*few).report((given[90:], labels[90:]))
    assert report.before.probabilities.tolist() == report.after.probabilities.tolist()
    assert "NLL unchanged (" in report.verdict
    assert "but for chance" not in report.verdict


def test_the_model_is_as_it_was_after_a_report(model, report):
    assert model.process.calibrator.log_temperature > 0
    assert model.summary is not None


def test_sets_without_names_are_refused_in_words(model):
    with pytest.raises(InputError, match="letters"):
        model.report((torch.zeros(3, 2), torch.zeros(3, dtype=torch.long)), ood=torch.zeros(3, 2))


def test_a_report_is_a_page_or_a_card(report, tmp_path):
    with pytest.raises(InputError, match="html"):
        report.save(tmp_path / "report.pdf")


def test_a_model_without_a_memory_has_a_report_too():
    sure = torch.tensor([[0.99, 0.01], [0.01, 0.99]]).repeat(100, 1)
    labels = torch.tensor([0, 1, 1, 0, 0, 1, 0, 1]).repeat(25)
    model = totalcal.calibrate_probabilities(sure, labels)
    page = model.report((sure, labels), ood={"flat": torch.full((50, 2), 0.5)}).to_html()
    assert "no memory" in page


def test_scores_of_the_page_are_those_of_their_rooms():
    noise = np.random.default_rng(0)
    probabilities, labels = noise.dirichlet(np.ones(3), 200), noise.integers(3, size=200)
    assert plain_ece(probabilities, labels) == pytest.approx(float(ece(probabilities, labels)))
    inside, outside = noise.integers(5, size=50).astype(float), noise.integers(3, 8, size=70).astype(float)
    truth = roc_auc_score([0] * 50 + [1] * 70, np.concatenate([inside, outside]))
    assert plain_auroc(inside, outside) == pytest.approx(truth)


def test_an_interval_over_rows_is_that_of_the_normal_law_for_a_mean():
    noise = np.random.default_rng(0)
    one, two = noise.normal(size=2000), noise.normal(0.2, size=2000)
    found = bootstrap_difference(np.mean, [([one], [two])], repetitions=2000)
    reach = 1.96 * np.std(two - one) / np.sqrt(2000)
    assert found.high - found.low == pytest.approx(2 * reach, rel=0.1)
