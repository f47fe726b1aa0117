"""Predictions by moments: near those of many draws, the same every time, with gradients, exportable."""

from typing import Any

import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.testing import assert_close

from totalcal import BNNClassifier, Gate, load, remember, save
from totalcal.errors import GateError
from totalcal.files.saved import Model
from totalcal.models import MODELS
from totalcal.models.process import TuringProcess
from totalcal.nets import mlp, small_convnet
from totalcal.parts.moments import NoMomentRuleError
from totalcal.parts.weights import MeanFieldLinear
from totalcal.types import BY_MOMENTS, DETERMINISTIC, Batch, ContextUse, Predictive

CLASSES = 4
LINEAR = {"evidence_map": "linear"}


def model_of(name: str, seed: int = 0, **options: Any) -> TuringProcess:
    """With weights and a memory that are random enough to be seen."""
    torch.manual_seed(seed)
    model = MODELS[name](mlp(6, CLASSES, (16,)), CLASSES, **options)
    for layer in model.modules():
        if isinstance(layer, MeanFieldLinear):
            layer.weight_log_variance.data.fill_(-2.5)
            layer.weight_mean.data.mul_(4)
    if name == "etp":
        model.latent.cells.normal_()
    return model.eval()


def inputs(rows: int = 40) -> Tensor:
    return torch.randn(rows, 6, generator=torch.Generator().manual_seed(1))


def context_of(model: TuringProcess) -> Batch | None:
    if model.context_use is not ContextUse.REQUIRED:
        return None
    return Batch(inputs(10), torch.arange(10) % CLASSES)


@pytest.mark.parametrize(("name", "evidence"), [*((name, {}) for name in MODELS), ("etp", LINEAR)])
def test_moments_give_what_many_draws_give(name, evidence) -> None:
    model = model_of(name, **evidence)
    found = model.predict(inputs(), draws="moments", context=context_of(model))
    truth = model.predict(inputs(), draws=4000, context=context_of(model))
    few = model.predict(inputs(), draws=10, context=context_of(model))
    error = (found.probabilities - truth.probabilities).abs().max(-1)[0].mean()
    assert error < 0.03
    if name in ("bnn", "etp"):
        assert error < (few.probabilities - truth.probabilities).abs().max(-1)[0].mean()
        terms = [0, 2] if name == "bnn" else [0, 1, 2]  # a point mass has no irreducible part
        ours, ten, theirs = (each.decompose().summed() for each in (found, few, truth))
        ranks, of_ten = ([spearmanr(each[term], theirs[term])[0] for term in terms] for each in (ours, ten))
        assert all(rank > other for rank, other in zip(ranks, of_ten, strict=True))
        assert min(ranks) > (0.9 if (name, evidence) == ("etp", {}) else 0.95)
    total = torch.stack(found.decompose()).sum(0)
    assert_close(total, found.probabilities * (1 - found.probabilities), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_a_row_has_one_answer_and_no_random_number_is_used_up(name) -> None:
    model = model_of(name).double()
    context = context_of(model)
    context = context and Batch(context.inputs.double(), context.labels)
    rows, state = inputs(5).double(), torch.get_rng_state()
    whole = model.predict(rows, draws="moments", context=context)
    parts = Predictive.joined([model.predict(row, draws="moments", context=context) for row in rows.split(1)])
    assert_close(whole.belief.mean, parts.belief.mean, rtol=0, atol=1e-10)
    assert whole.sampling == parts.sampling == (DETERMINISTIC if name in ("softmax", "edl") else BY_MOMENTS)
    assert torch.equal(state, torch.get_rng_state())


def test_a_layer_without_a_rule_is_named() -> None:
    torch.manual_seed(0)
    model = MODELS["bnn"](nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, CLASSES)), CLASSES)
    with pytest.raises(NoMomentRuleError, match=r"no rule .* LayerNorm.*Use draws"):
        model.predict(inputs(), draws="moments")


def test_randomness_that_nobody_was_told_of_is_noticed() -> None:
    class Coin(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            return rows * (torch.rand(()) - 0.5)

    torch.manual_seed(0)
    model = MODELS["bnn"](nn.Sequential(Coin(), nn.Linear(6, CLASSES)), CLASSES)
    with pytest.raises(NoMomentRuleError, match="random numbers of its own"):
        model.predict(inputs(2), draws="moments")


@pytest.mark.parametrize("draws", ["auto", "moments"])
def test_gates_files_and_estimators_take_moments_by_themselves(tmp_path, draws) -> None:
    model, rows, labels = model_of("etp"), inputs(300), torch.arange(300) % CLASSES
    assert model.measure_default_draws(rows) == "moments"
    gate = Gate.fit(model, rows, labels, draws=draws)
    assert gate.sampling == BY_MOMENTS
    assert gate.decide(model, rows[:7]).accepted.shape == (7,)
    with pytest.raises(GateError, match="by moments"):
        gate(model.predict(rows, draws=10))
    assert Gate.fit(Model(model), rows.numpy(), labels, draws=draws).sampling == BY_MOMENTS
    save(model, tmp_path / "model.totalcal", gate=gate)
    restored = load(tmp_path / "model.totalcal").predict(rows.numpy())  # made as its gate needs it
    assert restored.sampling == BY_MOMENTS
    assert_close(restored.probabilities, model.predict(rows, draws="moments").probabilities)
    estimator = BNNClassifier(draws=draws, max_epochs=2, random_state=0).fit(rows.numpy(), labels.numpy())
    assert estimator.predict_distribution(rows.numpy()).sampling == BY_MOMENTS


def test_a_file_whose_gate_was_fitted_with_draws_goes_on_drawing(tmp_path) -> None:
    model, rows, labels = model_of("etp"), inputs(300), torch.arange(300) % CLASSES
    save(model, tmp_path / "model.totalcal", gate=Gate.fit(model, rows, labels, draws=10))
    found = load(tmp_path / "model.totalcal").predict(rows.numpy())
    assert_close(found.probabilities, model.predict(rows, draws=10).probabilities)


class Probabilities(nn.Module):
    """What is handed over: a function of the inputs alone."""

    def __init__(self, model: TuringProcess) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        found = self.model.predict(rows, draws="moments")
        return found.probabilities, found.entropy


@pytest.mark.parametrize("name", ["bnn", "etp"])
def test_a_prediction_by_moments_can_be_exported(name) -> None:
    model = Probabilities(model_of(name)).eval()
    rows = torch.export.Dim("rows", min=2, max=1000)
    with torch.no_grad():
        program = torch.export.export(model, (inputs(),), dynamic_shapes=({0: rows},), strict=False)
        for found, expected in zip(program.module()(inputs(7)), model(inputs(7)), strict=True):
            assert_close(found, expected)


@pytest.mark.parametrize("draws", ["moments", 10])
def test_with_a_domain_memory_the_layers_before_the_first_that_draws_run_once(draws) -> None:
    torch.manual_seed(0)
    model = MODELS["etp"](small_convnet(3, widths=(4, 8, 16)), 3).eval()
    rows, labels = torch.randn(60, 1, 8, 8), torch.arange(60) % 3
    plain = model.predict(rows, draws=draws, seed=1)
    remember(model, (rows, labels), (rows, labels), progress=False)
    calls = []
    model.backbone[0].register_forward_hook(lambda *_: calls.append(1))
    found = model.predict(rows, draws=draws, seed=1)
    assert len(calls) == 1
    assert_close(found.belief.mean, plain.belief.mean, rtol=0, atol=1e-6)
    assert_close(found.familiarity, model.predict(rows, draws=0).familiarity)
