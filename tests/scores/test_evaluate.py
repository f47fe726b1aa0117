import json

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.dummy import DummyClassifier
from torch import nn

from totalcal import models, scores
from totalcal.backbones import mlp
from totalcal.errors import InputError, UnknownNameError


@pytest.fixture
def outputs(predictions):
    test, labels = predictions(sharpness=3.0)
    near, far = predictions(sharpness=2.0, seed=1)[0], predictions(sharpness=0.5, seed=2)[0]
    return test, labels, {"far": far, "near": near}


def entropy(probabilities):
    exact = probabilities.astype(float)
    return -(exact * np.log(exact)).sum(axis=1)


def test_the_verdict_holds_the_scores_of_the_predictive_distribution(outputs):
    test, labels, ood = outputs
    verdict = scores.evaluate_outputs(test, labels, "probabilities", ood)
    for name in ("error", "nll", "brier"):
        assert_allclose(getattr(verdict, name), getattr(scores, name)(test, labels), rtol=1e-5)
    assert_allclose(verdict.ece.value, scores.ece(test, labels).value, rtol=1e-5)
    assert_allclose(verdict.auroc, scores.auroc(entropy(test), entropy(ood["far"])), rtol=1e-6)
    assert verdict.examples == 500
    assert verdict.panel["near"].examples == 500


@pytest.mark.parametrize("size", [1, 8, 32, 128, 500])
def test_no_batch_size_moves_any_score(outputs, size):
    """Peers' AUROC of entropies above 1 depends on the batch; here nothing does."""
    test, labels, ood = outputs

    def run(batch_size):
        predictor = scores.from_arrays("probabilities")
        return scores.evaluate(predictor, (test, labels), ood, batch_size=batch_size).to_dict()

    assert max(entropy(ood["far"])) > 1
    whole, found = run(500), run(size)
    numbers = [key for key, value in whole.items() if isinstance(value, float)]
    assert_allclose([found[key] for key in numbers], [whole[key] for key in numbers], rtol=1e-9)


def test_a_sampling_model_does_not_depend_on_how_a_loader_batches():
    model = models.bnn(mlp(2, 3), num_classes=3)
    random = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(60, 2, generator=random), torch.randint(3, (60,), generator=random)
    whole = scores.evaluate(model, (inputs, labels), {"far": 9 * inputs}, batch_size=16)
    parts = [(inputs[i : i + 7], labels[i : i + 7]) for i in range(0, 60, 7)]
    assert scores.evaluate(model, parts, {"far": 9 * inputs}, batch_size=16).to_dict() == whole.to_dict()
    assert whole.draws == 10


def test_the_seed_repeats_a_verdict_and_another_seed_does_not():
    model = models.bnn(mlp(2, 3), num_classes=3)
    inputs = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    test = (inputs, torch.zeros(30, dtype=torch.long))
    first, again, other = (scores.evaluate(model, test, seed=seed).nll for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_one_member_of_the_panel_does_not_move_another():
    model = models.bnn(mlp(2, 3), num_classes=3)
    inputs = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    test = (inputs, torch.arange(30) % 3)
    alone = scores.evaluate(model, test, {"b": inputs + 5})
    both = scores.evaluate(model, test, {"a": inputs - 5, "b": inputs + 5})
    assert alone.panel["b"] == both.panel["b"]


def test_a_dirichlet_model_is_judged_by_its_dirichlet_mean():
    alpha, labels = np.array([[1.0, 9.0], [30.0, 10.0]]), np.array([1, 0])
    verdict = scores.evaluate_outputs(alpha, labels, "concentration")
    assert_allclose(verdict.nll, -np.mean(np.log([0.9, 0.75])))


def test_draws_of_outputs_are_averaged():
    draws = np.array([[[1.0, 0.0]], [[0.5, 0.5]]])
    verdict = scores.evaluate_outputs(draws, [0], "probabilities")
    assert_allclose(verdict.nll, -np.log(0.75))
    assert verdict.draws == 2


def test_every_uncertainty_can_be_the_one_that_ranks(outputs):
    test, labels, ood = outputs
    for name in scores.UNCERTAINTIES:
        verdict = scores.evaluate_outputs(test, labels, "probabilities", ood, uncertainty=name)
        assert verdict.auroc == verdict.panel["far"].rankings[name].auroc
    assert verdict.panel["far"].rankings["negative_log_concentration"].auroc == 0.5  # point masses tie
    with pytest.raises(UnknownNameError, match="entropy"):
        scores.evaluate_outputs(test, labels, "probabilities", uncertainty="entropie")


def test_the_panel_has_a_first_a_mean_and_a_worst(outputs):
    verdict = scores.evaluate_outputs(*outputs[:2], "probabilities", outputs[2])
    each = [member.rankings["entropy"].auroc for member in verdict.panel.values()]
    assert verdict.worst == "near"
    assert verdict.auroc == each[0]
    assert verdict.auroc_worst == min(each)
    assert verdict.auroc_mean == pytest.approx(sum(each) / 2)


def test_it_exports_flat_and_as_json(outputs):
    verdict = scores.evaluate_outputs(*outputs[:2], "probabilities", outputs[2], bins=10)
    loaded = json.loads(verdict.to_json())
    assert loaded == verdict.to_dict()
    assert {"error", "nll", "brier", "ece", "auroc", "auroc/near", "fpr95/far", "majority_error"} <= set(
        loaded
    )
    assert (loaded["bins"], loaded["examples"], loaded["positive"]) == (10, 500, "out-of-domain")


def test_an_infinite_nll_is_null_in_json_and_there_is_no_auroc_without_a_panel():
    verdict = scores.evaluate_outputs([[1.0, 0.0]], [1], "probabilities")
    loaded = json.loads(verdict.to_json())
    assert verdict.nll == np.inf
    assert loaded["nll"] is None
    assert loaded["auroc"] is None


def test_it_prints_as_a_table_that_says_which_class_is_positive(outputs):
    text = str(scores.evaluate_outputs(*outputs[:2], "probabilities", outputs[2]))
    assert "out-of-domain is the positive class" in text
    assert "AUROC, worst (near)" in text
    assert "500 examples, 5 classes, 1 draw, seed 0" in text


def test_a_predictor_that_learned_nothing_is_told_so():
    verdict = scores.evaluate_outputs([[0.5, 0.5]] * 4, [0, 0, 1, 1], "probabilities")
    assert not verdict.learned
    assert "learned nothing" in str(verdict)


def test_a_module_is_judged_in_eval_mode_and_gets_its_mode_back():
    model = models.softmax(nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.9)), num_classes=3).train()
    test = (torch.ones(20, 2), torch.zeros(20, dtype=torch.long))
    assert scores.evaluate(model, test).nll == scores.evaluate(model, test).nll
    assert model.training


def test_a_test_set_without_labels_or_without_rows_is_refused():
    predictor = scores.from_arrays("logits")
    with pytest.raises(InputError, match="no labels"):
        scores.evaluate(predictor, torch.zeros(3, 2))
    with pytest.raises(InputError, match="empty"):
        scores.evaluate(predictor, [])


@pytest.mark.parametrize(
    "stranger", [nn.Linear(2, 3), DummyClassifier().fit([[0], [1]], [0, 1])], ids=["net", "sklearn"]
)
def test_what_is_no_predictor_is_told_how_to_become_one(stranger):
    with pytest.raises(InputError, match=r"from_sklearn\(classifier\)"):
        scores.evaluate(stranger, (torch.zeros(2, 2), torch.zeros(2, dtype=torch.long)))
