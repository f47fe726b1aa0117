"""Predictions whose rows all meet the same draws."""

import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from totalcal import MODELS, Batch
from totalcal.errors import InputError, ShapeError
from totalcal.types import DETERMINISTIC, Predictive, Sampling


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(3)
    return Batch(torch.randn(40, 4, generator=generator), torch.randint(3, (40,), generator=generator))


def process(name):
    torch.manual_seed(0)
    return MODELS[name](nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), 3).eval()


def context_for(name, data):
    return Batch(data.inputs[:9], data.labels[:9]) if name == "anp" else None


@pytest.mark.parametrize("name", list(MODELS))
def test_a_row_does_not_mind_its_company(name, data):
    model, context = process(name), context_for(name, data)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(5))
    whole = model.predict_shared(data.inputs, context=context).belief.mean[:, order]
    parts = [model.predict_shared(part, context=context).belief.mean for part in data.inputs[order].split(7)]
    assert_allclose(torch.cat(parts, 1), whole, rtol=1e-5)


@pytest.mark.parametrize("name", list(MODELS))
def test_it_agrees_with_predict_where_nothing_is_drawn(name, data):
    model, context = process(name), context_for(name, data)
    expected = model.predict(data.inputs, draws=0, context=context).probabilities
    assert_allclose(model.predict_shared(data.inputs, 0, context).probabilities, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["bnn", "etp"])
def test_over_many_draws_it_agrees_with_predict(name, data):
    model = process(name)
    for layer in model.backbone:
        if hasattr(layer, "weight_log_variance"):
            nn.init.constant_(layer.weight_log_variance, -3.0)
    few = data.inputs[:4]
    expected = model.predict(few, draws=4000, generator=torch.Generator().manual_seed(1))
    found = model.predict_shared(few, draws=4000)
    assert_allclose(found.probabilities, expected.probabilities, atol=0.02)
    assert_allclose(found.decompose().reducible, expected.decompose().reducible, atol=0.005)


def test_wrong_inputs_are_refused(data):
    with pytest.raises(InputError, match="row 1"):
        process("etp").predict_shared(torch.tensor([[0.0] * 4, [float("nan")] * 4]))
    with pytest.raises(ShapeError):
        MODELS["softmax"](nn.Linear(4, 5), 3).predict_shared(data.inputs)


@pytest.mark.parametrize("name", list(MODELS))
def test_a_prediction_says_how_its_draws_were_made(name, data):
    model, context = process(name), context_for(name, data)
    is_random = name not in ("softmax", "edl")
    alone, shared = model.predict(data.inputs, 5, context), model.predict_shared(data.inputs, 5, context, 3)
    assert alone.sampling == (Sampling(5) if is_random else DETERMINISTIC)
    assert shared.sampling == (Sampling(5, seed=3, shared=True) if is_random else DETERMINISTIC)
    assert model.predict(data.inputs, 0, context).sampling == DETERMINISTIC
    assert Predictive.joined([shared, shared]).sampling == shared.sampling
    assert Predictive.joined([alone, shared]).sampling == (None if is_random else DETERMINISTIC)


@pytest.mark.parametrize("draws", [1, 2, 5])
@pytest.mark.parametrize("name", list(MODELS))
def test_fixed_draws_are_those_of_the_seed(name, draws, data):
    model, context = process(name), context_for(name, data)
    fixed = model.fixed_draws(data.inputs[:3], draws, context, seed=7)
    expected = model.predict_shared(data.inputs, draws, context, seed=7)
    state = torch.get_rng_state()
    for _ in range(2):  # what the latent draws is remembered from its first use
        found = model.predict_fixed(data.inputs, fixed, context)
        assert_allclose(found.belief.mean, expected.belief.mean, rtol=0, atol=1e-6)
        assert (found.sampling, found.paired) == (expected.sampling, expected.paired)
    assert torch.equal(state, torch.get_rng_state())


class Wayward(nn.Module):
    """Cannot be vmapped, uses one layer twice and another never."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.idle = nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, rows):
        hidden = self.first(self.first(rows).relu())
        return self.again(hidden if hidden.sum().item() < 1e9 else -hidden)


def test_fixed_draws_follow_a_net_of_any_shape(data):
    torch.manual_seed(0)
    model = MODELS["etp"](Wayward(), 3)
    fixed = model.fixed_draws(data.inputs[:3], 5)
    found, expected = model.predict_fixed(data.inputs, fixed), model.predict_shared(data.inputs, 5)
    assert_allclose(found.belief.mean, expected.belief.mean, rtol=0, atol=1e-6)
