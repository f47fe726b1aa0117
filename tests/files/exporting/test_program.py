"""What an exported program says is what the model says: every model, every net, both formats."""

import numpy as np
import pytest
import scipy.special
import torch
from numpy.testing import assert_allclose

import totalcal
from totalcal import MODELS, Costs, Model, PerClass, Thresholds, export
from totalcal.files.exporting.program import (
    digamma,
    entropy_summand,
    logaddexp,
    outputs_of,
    searchsorted,
    sets_of,
)
from totalcal.files.predicting.answers import answers
from totalcal.files.predicting.exported import ExportedModel, open_exported
from totalcal.types import Predictive
from totalcal.uncertainties import P_VALUES, UNFAMILIARITIES, uncertainty

NETS = ("mlp", "lenet5", "resnet18", "encoder")
WHOLE = ("etp", "softmax")
QUICK = [("anp", "mlp", "onnx"), ("etp", "lenet5", "onnx")]
"""Further down and in test_writing: an ETP's perceptron as .onnx and .pt2, a BNN in float64."""
REST = [
    (model, net, kind, draws)
    for model in sorted(MODELS)
    for net in NETS
    for kind in ("onnx", "pt2")
    for draws in (("auto",) if model in ("softmax", "edl") else ("auto", 3))
    if (model, net, kind) not in QUICK or draws == "auto"
]


def check(exported: ExportedModel, saved: Model, rows: np.ndarray, draws="auto") -> None:
    """33 rows, and one by itself."""
    prediction, found = saved.predict(rows, draws=draws), exported.predict(rows)
    expected = {"probabilities": prediction.probabilities, "entropy": prediction.entropy}
    expected |= prediction.decompose().summed()._asdict()
    for name, values in expected.items():
        assert_allclose(found[name], values, rtol=0, atol=1e-5, err_msg=name)
    if prediction.domain is not None:
        check_familiarity(found, prediction, saved.process.domain.calibration.numpy())
    one = exported.predict(rows[:1])["probabilities"]
    assert_allclose(one, prediction.probabilities[:1], rtol=0, atol=1e-5)
    if saved.gate is not None:
        answers, decisions = exported.answers(rows), saved.gate(prediction)
        assert answers.decisions == decisions.verdicts
        assert answers.reasons == decisions.reasons
        assert len(set(answers.decisions)) > 1


def check_familiarity(found: dict[str, np.ndarray], prediction: Predictive, calibration: np.ndarray) -> None:
    """T is made of ranks, and one moves by one where two distances tie up to rounding; then so does p."""
    for held_out, statistic, p_value in zip(calibration, UNFAMILIARITIES, P_VALUES, strict=True):
        gap = np.abs(found[statistic] / uncertainty(prediction, statistic) - 1)
        assert np.median(gap) < 1e-4
        assert np.mean(gap > 1e-3) < 0.1
        assert gap.max() < 0.1
        ranks = [int(share * (len(held_out) - 1)) for share in (0.05, 0.95)]
        rounding = 1e-3 * found[statistic] + 3e-6 * np.diff(held_out[ranks])
        farther = (held_out >= (found[statistic] - rounding)[:, None]).sum(1)
        assert_allclose(found[p_value], (1 + farther) / (len(held_out) + 1), rtol=0, atol=1e-6)
        moved = np.abs(found[p_value] - getattr(prediction, p_value).numpy())
        assert np.mean(moved > 1e-5) < 0.1


@pytest.mark.parametrize(("model", "net", "kind"), QUICK)
def test_an_exported_program_says_what_the_model_says(model, net, kind, tmp_path, saved_model, rows_of):
    saved = saved_model(model, net, whole=model in WHOLE)
    export(saved, tmp_path / f"model.{kind}")
    check(open_exported(tmp_path / f"model.{kind}"), saved, rows_of(net, 33, seed=4))


@pytest.mark.parametrize("kind", ["onnx", "pt2"])
@pytest.mark.parametrize("model", ["softmax", "bnn"])
def test_a_program_has_numbers_for_rows_so_far_away_that_a_probability_is_zero(
    model, kind, tmp_path, saved_model, rows_of
):
    saved, rows = saved_model(model, "mlp", whole=False), rows_of("mlp", 50, seed=4)
    export(saved, tmp_path / f"model.{kind}")
    far = rows.mean(0) + 30_000 * (rows - rows.mean(0))
    expected, found = saved.predict(far), open_exported(tmp_path / f"model.{kind}").predict(far)
    assert (expected.probabilities == 0).any(1).sum() > 25
    assert_allclose(found["entropy"], expected.entropy, atol=1e-6)
    assert np.isfinite(found["mutual_information"]).all()


def test_a_program_is_as_sure_as_its_model_that_rows_are_from_elsewhere(exported_mlp, rows_of, tmp_path):
    saved, path = exported_mlp
    rows = rows_of("mlp", 8, seed=4)
    for scale in (1e3, 1e6, 1e20):  # the last is the farthest that float32 can tell
        expected = saved.predict(scale * rows)
        found = open_exported(path).predict(scale * rows)
        for name in UNFAMILIARITIES:
            assert_allclose(found[name], uncertainty(expected, name), rtol=1e-3, err_msg=name)
        assert_allclose(found["familiarity"], expected.familiarity, atol=1e-6)
        assert export(saved, tmp_path / "model.onnx", example=scale * rows).largest_difference < 1e-5


def test_logarithms_of_sums_are_those_of_numpy():
    values = np.array([-np.inf, -1e300, -800, -1, 0, 1e-9, 3, 800, 1e300, np.inf])
    one, other = (each.ravel() for each in np.meshgrid(values, values))
    found = logaddexp(torch.from_numpy(one), torch.from_numpy(other))
    assert_allclose(found, np.logaddexp(one, other), rtol=1e-14)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("model", "net", "kind", "draws"), REST)
def test_so_does_every_other_pair(model, net, kind, draws, tmp_path, saved_model, rows_of):
    saved = saved_model(model, net, draws=draws)
    export(saved, tmp_path / f"model.{kind}")
    check(open_exported(tmp_path / f"model.{kind}"), saved, rows_of(net, 33, seed=4))


def test_an_etp_with_memory_domain_and_gate_is_one_onnx(exported_mlp, rows_of):
    saved, path = exported_mlp
    check(open_exported(path), saved, rows_of("mlp", 33, seed=4))
    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]  # no external data


@pytest.mark.parametrize("draws", [0, "moments"])
def test_means_and_moments_are_exported(draws, tmp_path, saved_model, rows_of):
    saved = saved_model("etp", "mlp", whole=False)
    export(saved, tmp_path / "model.pt2", draws=draws)
    check(open_exported(tmp_path / "model.pt2"), saved, rows_of("mlp", 33, seed=4), draws)


def test_the_digamma_function_is_that_of_scipy():
    values = np.concatenate([np.geomspace(1e-6, 1, 200), np.geomspace(1, 1e7, 200)])
    assert_allclose(digamma(torch.from_numpy(values)), scipy.special.digamma(values), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 7, 8, 100])
def test_bisection_counts_what_lies_below_ties_included(length):
    numbers = np.random.default_rng(length)
    ranks = np.sort(numbers.integers(0, 9, (3, length)).astype(float), axis=1)
    values = numbers.integers(-1, 11, (3, 40)).astype(float)
    expected = [np.searchsorted(row, value, side="left") for row, value in zip(ranks, values, strict=True)]
    assert_allclose(searchsorted(torch.from_numpy(ranks), torch.from_numpy(values)), expected)


def test_the_summands_of_an_entropy_are_those_of_scipy():
    values = np.concatenate([[0.0, 1.0, 1e-300], np.linspace(0, 1, 50)])
    assert_allclose(entropy_summand(torch.from_numpy(values)), scipy.special.entr(values), atol=1e-15)


CHOICES = [PerClass(), Costs(5, ask=1, miss_ood=10), Thresholds({0: 0.9}, 0.6)]


def decided(choice):
    """A model with decisions of a choice, and rows to ask it about."""
    noise = torch.Generator().manual_seed(0)
    rows = torch.randn(700, 3, generator=noise)
    labels = torch.multinomial((2 * rows).softmax(-1), 1, generator=noise).flatten()
    net = torch.nn.Linear(3, 3)
    with torch.no_grad():
        net.weight.copy_(2 * torch.eye(3))
        net.bias.zero_()
    data = (rows[:200], labels[:200]), (rows[200:], labels[200:])
    saved = totalcal.calibrate(net, *data, decisions=choice, alpha=0.1, beta=0.1, progress=False)
    return saved, (torch.randn(200, 3, generator=noise) * 2).numpy()


@pytest.mark.parametrize("choice", CHOICES)
def test_a_program_decides_as_its_gate_does(choice):
    saved, rows = decided(choice)
    prediction = saved.predict(rows)
    verdicts = np.array(["accept", *(bar.verdict for bar in saved.gate.bars)])
    found = verdicts[outputs_of(prediction, saved.gate)["decision"].numpy()]
    assert found.tolist() == saved.gate(prediction).verdicts
    assert len(set(found)) == 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("choice", CHOICES)
def test_decisions_of_any_choice_are_those_of_the_model(choice, tmp_path):
    saved, rows = decided(choice)
    totalcal.export(saved, tmp_path / "it.pt2", example=rows[:8])
    check(open_exported(tmp_path / "it.pt2"), saved, rows[:60])


def test_a_program_answers_at_least_cost_and_gives_the_sets_of_its_model(tmp_path):
    """To call 1 what is 0 costs 1; to call 0 what is 1 costs 9: the answer is not the likeliest class."""
    noise = torch.Generator().manual_seed(0)
    rows = torch.rand(400, 1, generator=noise)
    rows, labels = torch.cat([rows, 1 - rows], 1), torch.bernoulli(1 - rows[:, 0], generator=noise).long()
    saved = totalcal.calibrate_probabilities(rows, labels, decisions=Costs([[0, 1], [9, 0]], ask=0.4))
    totalcal.export(saved, tmp_path / "it.onnx", example=rows[:8])
    exported = open_exported(tmp_path / "it.onnx")
    asked = rows[:60].numpy()
    expected = answers(saved, asked)
    assert exported.answers(asked).best == expected.best != expected.probabilities.argmax(1).tolist()
    assert exported.answers(asked).decisions == expected.decisions
    np.testing.assert_array_equal(exported.predict(asked)["set"], saved.predict(asked).set(0.9))
    assert exported.description.coverage == 0.9


@pytest.mark.parametrize("choice", CHOICES)
def test_sets_of_a_program_are_those_of_the_model(choice):
    saved, rows = decided(choice)
    prediction = saved.predict(rows)
    found = outputs_of(prediction, saved.gate, sets_of(saved, prediction.sampling))["set"]
    np.testing.assert_array_equal(found, prediction.set(0.9))
    assert len(set(found.sum(1).tolist())) > 1
