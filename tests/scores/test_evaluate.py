import json

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import log_softmax, logsumexp
from sklearn.dummy import DummyClassifier
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from totalcal import Batch, models, scores
from totalcal.baselines import Ensemble, MCDropout, TemperatureScaled
from totalcal.errors import InputError, LabelError, ShapeError, UnknownNameError, UnreadableFileError
from totalcal.nets import mlp
from totalcal.scores.evaluate import evaluate_files, evaluate_outputs
from totalcal.scores.outputs import read_outputs


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
    assert (loaded["bins"], loaded["examples"], loaded["positive"]) == (10, 500, "out-of-distribution")


def test_an_infinite_nll_is_null_in_json_and_there_is_no_auroc_without_a_panel():
    verdict = scores.evaluate_outputs([[1.0, 0.0]], [1], "probabilities")
    loaded = json.loads(verdict.to_json())
    assert verdict.nll == np.inf
    assert loaded["nll"] is None
    assert loaded["auroc"] is None


def test_it_prints_as_a_table_that_says_which_class_is_positive(outputs):
    text = str(scores.evaluate_outputs(*outputs[:2], "probabilities", outputs[2]))
    assert "out-of-distribution (OOD) is the positive class" in text
    assert "AUROC, worst (near)" in text
    assert "500 examples, 5 classes, predicted without draws" in text


def test_the_name_of_an_ood_set_is_text_and_nothing_else(outputs):
    ood = {"[/x]\x1b[31mred": outputs[2]["near"]}
    text = str(scores.evaluate_outputs(*outputs[:2], "probabilities", ood))
    assert r"AUROC, [/x]\x1b[31mred (" in text


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
    "unwrapped", [nn.Linear(2, 3), DummyClassifier().fit([[0], [1]], [0, 1])], ids=["net", "sklearn"]
)
def test_what_is_no_predictor_is_told_how_to_become_one(unwrapped):
    with pytest.raises(InputError, match=r"from_sklearn\(classifier\)"):
        scores.evaluate(unwrapped, (torch.zeros(2, 2), torch.zeros(2, dtype=torch.long)))


def test_a_predict_that_takes_no_draws_is_told_what_the_protocol_is():
    class Bare:
        def predict(self, inputs):
            return scores.as_predictive(inputs, "logits")

    with pytest.raises(InputError, match=r"predict\(inputs, \*, draws, seed, context\)"):
        scores.evaluate(Bare(), (torch.zeros(2, 2), torch.zeros(2, dtype=torch.long)))


class OwnPredictor:
    """Somebody's own: its nets lie in a dictionary, and nobody told it about modes."""

    def __init__(self, net):
        self.nets = {"first": net}

    def predict(self, inputs, *, draws="auto", seed=0, context=None):
        with torch.no_grad():
            return scores.as_predictive(self.nets["first"](inputs), "logits")


def normed():
    return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def given_context(net):
    process = models.anp(net, num_classes=3).train()
    return process.given(Batch(torch.ones(4, 2), torch.arange(4) % 3))


HOLDERS = {
    "GivenContext": given_context,
    "TemperatureScaled": lambda net: TemperatureScaled(models.softmax(net, 3).train(), 2.0, 1.0, 1.0),
    "Ensemble": lambda net: Ensemble([models.softmax(net, 3).train()]),
    "an ensemble of scaled": lambda net: Ensemble([HOLDERS["TemperatureScaled"](net)]),
    "MCDropout": lambda net: MCDropout(net, "logits"),
    "from_module": lambda net: scores.from_module(net, "logits"),
    "one's own": OwnPredictor,
    "a function": lambda net: scores.ExternalPredictor(lambda inputs: net(inputs), "logits"),
    "a bound call": lambda net: scores.ExternalPredictor(net.forward, "logits"),
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_no_predictor_learns_from_the_test_set(hold):
    torch.manual_seed(0)
    net = normed().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    predictor = hold(net)
    inputs = 3 + torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    first, again = (
        scores.evaluate(predictor, (inputs, torch.arange(40) % 3), {"far": 9 * inputs}) for _ in "12"
    )
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert first.nll == again.nll
    assert all(part.training for part in net.modules())


def test_what_was_seen_of_each_row_is_handed_out():
    model = models.etp(mlp(2, 3), num_classes=3)
    random = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(30, 2, generator=random), torch.randint(3, (30,), generator=random)
    verdict = scores.evaluate(model, (inputs, labels), {"far": 9 * inputs, "near": inputs[:7]}, seed=3)
    expected = model.eval().predict(inputs, draws=10, seed=3)
    seen = verdict.observed.test
    assert_allclose(seen.probabilities, expected.probabilities)
    assert_allclose(seen.entropy, expected.entropy)
    assert_allclose(seen.uncertainties["mutual_information"], expected.mutual_information)
    assert_allclose(seen.terms, torch.stack(expected.decompose().summed(), dim=-1))
    assert np.array_equal(seen.labels, labels)
    assert [len(rows) for rows in verdict.observed.ood.values()] == [30, 7]
    assert set(seen.uncertainties) == set(scores.UNCERTAINTIES)
    assert np.mean(seen.probabilities.argmax(1) != seen.labels) == verdict.error


@pytest.mark.parametrize("wrapped", [DataLoader, lambda data, batch_size: data], ids=["loader", "dataset"])
def test_an_unlabelled_data_set_is_an_ood_set(wrapped):
    inputs = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    test = (inputs, torch.arange(20) % 3)
    plain = scores.evaluate(scores.from_arrays("logits"), test, {"far": inputs / 9})
    bare = wrapped(TensorDataset(inputs / 9), batch_size=6)
    assert scores.evaluate(scores.from_arrays("logits"), test, {"far": bare}).to_dict() == plain.to_dict()


def test_an_ood_set_with_another_number_of_classes_is_refused():
    test = np.eye(3)[[0, 1, 2]], [0, 1, 2]
    with pytest.raises(ShapeError, match=r"'far'.*4.*3"):
        scores.evaluate_outputs(*test, "probabilities", {"far": np.full((2, 4), 0.25)})


def test_the_nll_of_a_sure_mistake_is_finite_where_it_is_finite():
    """Probabilities below 10⁻³²³ are 0 in float64; their logarithms are not."""
    draws = np.array([[[900.0, 0.0, 3.0], [2.0, 1.0, 0.0]], [[1200.0, 0.0, 3.0], [2.0, 1.5, 0.0]]])
    verdict = scores.evaluate_outputs(draws, [1, 0], "logits")
    exact = logsumexp(log_softmax(draws, axis=-1), axis=0) - np.log(2)
    assert verdict.nll == pytest.approx(-(exact[0, 1] + exact[1, 0]) / 2, rel=1e-12)
    assert verdict.nll > 400


def test_the_mask_of_an_ood_set_is_not_read_as_labels():
    class Masked:
        def predict(self, inputs, *, draws="auto", seed=0, context=None):
            values, mask = inputs
            return scores.as_predictive(values * mask, "logits")

    values, mask = torch.randn(9, 3, generator=torch.Generator().manual_seed(0)), torch.ones(9, 3)
    test = ((values, mask), values.argmax(1))
    verdict = scores.evaluate(Masked(), test, {"masked": (values[:4], 0 * mask[:4])}, batch_size=4)
    assert (verdict.error, verdict.auroc) == (0.0, 1.0)
    assert verdict.panel["masked"].examples == 4


def test_a_mistyped_uncertainty_is_noticed_in_the_first_block():
    asked = []

    def outputs(inputs):
        asked.append(len(inputs))
        return inputs

    test = torch.randn(1000, 3), torch.arange(1000) % 3
    with pytest.raises(UnknownNameError, match="Did you mean 'entropy'"):
        scores.evaluate(
            scores.ExternalPredictor(outputs, "logits"), test, uncertainty="entrpy", batch_size=10
        )
    assert asked == [10]


@pytest.fixture
def saved(tmp_path):
    def save(name, **arrays):
        path = tmp_path / f"{name}.npz"
        np.savez(path, **arrays)
        return path

    return save


def test_a_file_is_judged_with_its_ood_files(saved):
    test = saved("test", probabilities=np.array([[0.9, 0.1], [0.2, 0.8]]), labels=np.array([0, 1]))
    noise = saved("noise", probabilities=np.array([[0.5, 0.5]]))
    verdict = evaluate_files(test, [noise])
    assert (verdict.error, verdict.auroc, list(verdict.panel)) == (0.0, 1.0, ["noise"])


def test_draws_come_first_in_a_file(saved):
    draws = np.array([[[0.9, 0.1]] * 3, [[0.7, 0.3]] * 3])
    verdict = evaluate_files(saved("test", probabilities=draws, labels=np.zeros(3, dtype=int)))
    assert verdict.nll == pytest.approx(-np.log(0.8))
    assert (verdict.draws, verdict.examples) == (2, 3)


def test_labels_of_a_file_may_be_names_of_its_classes(saved):
    probabilities, words = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array(["cat", "dog"])
    assert evaluate_files(saved("names", probabilities=probabilities, labels=words, classes=words)).error == 0
    with pytest.raises(LabelError, match="Names need `classes`"):
        evaluate_files(saved("no names", probabilities=probabilities, labels=words))
    with pytest.raises(ShapeError, match="2 columns, but 1 names"):
        evaluate_files(saved("few", probabilities=probabilities, labels=words, classes=words[:1]))


def test_a_file_states_exactly_one_kind(saved):
    both = saved("both", logits=np.zeros((1, 2)), probabilities=np.full((1, 2), 0.5))
    with pytest.raises(InputError, match="exactly one of logits, probabilities"):
        read_outputs(both)
    with pytest.raises(InputError, match="it holds scores"):
        read_outputs(saved("none", scores=np.zeros((1, 2))))


def test_what_cannot_be_judged_is_refused(saved, tmp_path):
    logits = saved("logits", logits=np.zeros((1, 2)), labels=np.zeros(1, dtype=int))
    with pytest.raises(InputError, match="no file"):
        evaluate_files(tmp_path / "absent.npz")
    with pytest.raises(InputError, match="no `labels`"):
        evaluate_files(saved("bare", logits=np.zeros((1, 2))))
    with pytest.raises(InputError, match="save both as one kind"):
        evaluate_files(logits, [saved("other", probabilities=np.full((1, 2), 0.5))])
    with pytest.raises(InputError, match="two OOD sets"):
        evaluate_files(logits, [logits, logits])


@pytest.mark.parametrize("content", [b"", b"no zip at all", b"PK\x03\x04 torn"])
def test_a_file_that_is_no_npz_is_refused(tmp_path, content):
    path = tmp_path / "broken.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"an \.npz"):
        read_outputs(path)


def test_pickles_are_never_loaded(saved):
    with pytest.raises(InputError, match="plain arrays"):
        read_outputs(saved("pickle", logits=np.array([object()])))


POSITIVE = np.array([0.95, 0.95, 0.5, 0.95, 1.0, 0.0])
TRUTH = np.array([1, 0, 1, 1, 1, 0])


@pytest.fixture(params=["csv", "names.csv", "parquet", "npy", "npz"])
def column(request, tmp_path):
    """The probability of the positive class, and labels, in every kind of file."""
    path = tmp_path / f"it.{request.param}"
    frame = pd.DataFrame({"yes": POSITIVE, "label": TRUTH})
    if request.param == "npy":
        np.save(path, frame.to_numpy())
    elif request.param == "npz":
        np.savez(path, probabilities=POSITIVE, labels=TRUTH)
    elif request.param == "parquet":
        frame.to_parquet(path)
    else:
        words = np.array(["no", "yes"])[TRUTH] if request.param == "names.csv" else TRUTH
        frame.assign(label=words).to_csv(path, index=False)
    return path


def test_a_column_of_the_positive_class_is_judged_as_two_columns(column):
    both = evaluate_outputs(np.stack([1 - POSITIVE, POSITIVE], 1), TRUTH, "probabilities")
    found = evaluate_files(column)
    assert (found.error, found.nll, found.ece) == (both.error, both.nll, both.ece)


def test_columns_that_are_no_probabilities_or_labels_are_refused(tmp_path):
    for frame, what in (
        ({"yes": [0.5, 1.5], "label": [0, 1]}, "between 0 and 1"),
        ({"yes": [0.5, 0.5], "label": ["maybe", "never"]}, "maybe"),
        ({"yes": ["a", "b"], "label": [0, 1]}, "--label"),
    ):
        pd.DataFrame(frame).to_csv(tmp_path / "it.csv", index=False)
        with pytest.raises(InputError, match=what):
            read_outputs(tmp_path / "it.csv")
    np.save(tmp_path / "it.npy", np.zeros((2, 2, 2)))
    with pytest.raises(InputError, match="columns of numbers"):
        read_outputs(tmp_path / "it.npy")


@pytest.mark.parametrize("value", [np.array([["a", "b"]]), np.array([[1j, 0]])])
def test_outputs_that_are_no_real_numbers_are_refused(tmp_path, value):
    np.savez(tmp_path / "it.npz", probabilities=value, labels=[0])
    with pytest.raises(InputError, match="real numbers"):
        evaluate_files(tmp_path / "it.npz", [])


def test_what_a_file_lacks_is_said_before_it_is_read(saved):
    def damaged(path):  # whoever reads the numbers gets an error of another kind
        content = path.read_bytes()
        path.write_bytes(content.replace(np.float64(7.25).tobytes(), np.float64(7.5).tobytes()))
        return path

    many = np.full((9000, 2), 7.25)
    with pytest.raises(UnreadableFileError):
        evaluate_files(damaged(saved("right", logits=many, labels=np.zeros(9000, int))))
    with pytest.raises(InputError, match="no `labels`"):
        evaluate_files(damaged(saved("bare", logits=many)))
    with pytest.raises(ShapeError, match=r"\(9000, 2\) and labels of shape \(8,\)"):
        evaluate_files(damaged(saved("few", logits=many, labels=np.zeros(8, int))))
    with pytest.raises(ShapeError, match=r"outputs of shape \(\)"):
        evaluate_files(saved("number", probabilities=many[0, 0], labels=np.zeros(1, int)))
