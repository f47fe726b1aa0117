"""What every model owes to those who use its predictions."""

import copy
from collections.abc import Callable

import pytest
import torch

from totalcal import Batch, Predictor, TuringProcess, remember
from totalcal.parts.sampling import stochastic_layers
from totalcal.types import PointMass

AsJudged = Callable[[TuringProcess], Predictor]

# The paper's Table 1 as it shows in the decomposition: which model has which kind of uncertainty.
REDUCIBLE = {"bnn", "neural_process", "anp", "enp", "etp"}
IRREDUCIBLE = {"edl", "anp", "enp", "etp"}
ABLATION_TABLE = sorted({"softmax"} | REDUCIBLE | IRREDUCIBLE)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_probabilities_are_rows_that_sum_to_one(
    trained: TuringProcess, data: Batch, predictor: AsJudged
) -> None:
    prediction = predictor(trained).predict(data.inputs)
    assert prediction.probabilities.shape == (len(data.labels), trained.num_classes)
    torch.testing.assert_close(prediction.probabilities.sum(-1).cpu(), torch.ones(len(data.labels)).double())
    assert (prediction.probabilities >= 0).all()


def test_the_decomposition_adds_up_to_the_variance_of_the_label(
    trained: TuringProcess, data: Batch, predictor: AsJudged
) -> None:
    prediction = predictor(trained).predict(data.inputs)
    p, terms = prediction.probabilities, prediction.decompose()
    of_draws = (prediction.belief.mean - p).square().mean(0)
    of_the_mean = terms.reducible - of_draws  # what p itself is uncertain by: 0 where nothing is drawn
    total = terms.reducible + terms.irreducible + terms.data
    torch.testing.assert_close(total, p * (1 - p) + of_the_mean)
    many = predictor(trained).predict(data.inputs, draws=300)
    assert ((sum(many.decompose()) - many.probabilities * (1 - many.probabilities)).abs() < 1e-3).all()


def test_exactly_the_terms_of_absent_parts_are_zero(
    trained: TuringProcess, data: Batch, predictor: AsJudged
) -> None:
    prediction = predictor(trained).predict(data.inputs)
    terms = prediction.decompose().summed()
    has_draws = bool(stochastic_layers(trained.backbone)) or trained.latent.width > 0
    assert (terms.reducible > 0).all() if has_draws else (terms.reducible == 0).all()
    is_point = isinstance(prediction.belief, PointMass)
    assert (terms.irreducible == 0).all() if is_point else (terms.irreducible > 0).all()
    assert (terms.data > 0).all()


@pytest.mark.parametrize("name", ABLATION_TABLE)
def test_the_ablation_table_is_the_paper_s(
    name: str, trained: TuringProcess, data: Batch, predictor: AsJudged
) -> None:
    terms = predictor(trained).predict(data.inputs).decompose().summed()
    assert bool(terms.reducible.sum() > 0) == (name in REDUCIBLE)
    assert bool(terms.irreducible.sum() > 0) == (name in IRREDUCIBLE)


def test_information_is_never_negative_and_splits_in_two(
    trained: TuringProcess, data: Batch, predictor: AsJudged
) -> None:
    prediction = predictor(trained).predict(data.inputs)
    parts = prediction.mutual_information_of_model + prediction.mutual_information_of_belief
    torch.testing.assert_close(parts, prediction.mutual_information, rtol=1e-9, atol=1e-12)
    assert (prediction.mutual_information <= prediction.entropy + 1e-12).all()
    assert torch.isinf(prediction.concentration).all() == isinstance(prediction.belief, PointMass)


def test_the_same_generator_gives_the_same_prediction_bit_for_bit(
    trained: TuringProcess, data: Batch, predictor: AsJudged
) -> None:
    first, second = (predictor(trained).predict(data.inputs, seed=5) for _ in range(2))
    assert torch.equal(first.belief.mean, second.belief.mean)


def test_eval_does_not_change_what_is_drawn(trained: TuringProcess, data: Batch, predictor: AsJudged) -> None:
    trained.train()
    training = predictor(trained).predict(data.inputs, seed=5)
    trained.eval()
    evaluating = predictor(trained).predict(data.inputs, seed=5)
    assert torch.equal(training.belief.mean, evaluating.belief.mean)


def test_no_draws_means_mean_weights_and_mean_latents(
    trained: TuringProcess, data: Batch, predictor: AsJudged
) -> None:
    predictions = [predictor(trained).predict(data.inputs, draws=0, seed=s) for s in range(2)]
    assert predictions[0].draws == 1
    assert torch.equal(predictions[0].probabilities, predictions[1].probabilities)


def test_state_dict_round_trip_gives_identical_predictions(
    name: str,
    trained: TuringProcess,
    fresh_model: Callable[..., TuringProcess],
    data: Batch,
    predictor: AsJudged,
) -> None:
    restored = fresh_model(name)
    restored.load_state_dict(trained.state_dict())
    expected = predictor(trained).predict(data.inputs)
    actual = predictor(restored.eval()).predict(data.inputs)
    assert torch.equal(actual.belief.mean, expected.belief.mean)


def test_a_deep_copy_predicts_the_same_and_lives_on_its_own(
    trained: TuringProcess, data: Batch, predictor: AsJudged
) -> None:
    twin = copy.deepcopy(trained)
    expected = predictor(trained).predict(data.inputs)
    assert torch.equal(predictor(twin).predict(data.inputs).belief.mean, expected.belief.mean)
    for parameter in twin.parameters():
        parameter.data.zero_()
    again = predictor(trained).predict(data.inputs)
    assert torch.equal(again.belief.mean, expected.belief.mean)


def test_everything_moves_with_the_model(model: TuringProcess) -> None:
    model.to("meta")
    tensors = [*model.parameters(), *model.buffers()]
    assert all(tensor.device.type == "meta" for tensor in tensors)


def test_double_precision_works(trained: TuringProcess, data: Batch, predictor: AsJudged) -> None:
    single = predictor(trained).predict(data.inputs, draws=0).probabilities
    context = Batch(data.inputs[:8].double(), data.labels[:8])
    double_model = trained.double()
    needs_context = predictor(trained) is not trained
    given = double_model.given(context) if needs_context else double_model
    double = given.predict(data.inputs.double(), draws=0).probabilities
    torch.testing.assert_close(double, single, rtol=1e-3, atol=1e-4)


def test_batches_join_in_order(trained: TuringProcess, data: Batch, predictor: AsJudged) -> None:
    judged = predictor(trained)
    parts = [judged.predict(rows, draws=0) for rows in data.inputs.split(40)]
    whole = judged.predict(data.inputs, draws=0)
    joined = type(whole).joined(parts)
    torch.testing.assert_close(joined.probabilities, whole.probabilities, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("rows", [1, 2])
def test_few_inputs_are_enough(trained: TuringProcess, data: Batch, predictor: AsJudged, rows: int) -> None:
    prediction = predictor(trained).predict(data.inputs[:rows])
    assert prediction.probabilities.shape == (rows, trained.num_classes)


def test_every_model_can_remember_its_domain_and_then_predicts_what_it_did_before(
    trained: TuringProcess, data: Batch, predictor: AsJudged
) -> None:
    before = predictor(trained).predict(data.inputs, seed=5)
    remember(trained, (data.inputs[:64], data.labels[:64]), (data.inputs[64:], data.labels[64:]))
    after = predictor(trained).predict(data.inputs, seed=5)
    assert torch.equal(after.belief.mean, before.belief.mean)
    assert ((after.familiarity > 0) & (after.familiarity <= 1)).all()
    far = predictor(trained).predict(100 + 100 * data.inputs, seed=5)
    assert (far.familiarity == 1 / 17).all()  # 16 rows to compare with


def test_every_model_s_terms_add_up_when_its_belief_fades(
    trained: TuringProcess, data: Batch, predictor: AsJudged
) -> None:
    remember(trained, (data.inputs[:64], data.labels[:64]), (data.inputs[64:], data.labels[64:]), fade=0.1)
    prediction = predictor(trained).predict(1000 + 1000 * data.inputs, seed=5)
    p, terms = prediction.probabilities, prediction.decompose()
    whole = terms.reducible + terms.irreducible + terms.data
    torch.testing.assert_close(whole, p * (1 - p), rtol=0, atol=2e-3)  # but for what draws leave open
    assert (terms.summed().irreducible > 0).all()
    assert (prediction.mutual_information <= prediction.entropy + 1e-12).all()
