"""Predictions whose rows all meet the same draws."""

import copy
import pickle

import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from totalcal import MODELS, Batch, evaluate, fit, load, save
from totalcal.errors import InputError, ShapeError
from totalcal.parts.moments import NoMomentRuleError
from totalcal.parts.sampling import SeedNoise, stochastic_layers
from totalcal.types import BY_MOMENTS, DETERMINISTIC, Predictive, Sampling


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
    whole = model.predict(data.inputs, context=context).belief.mean[:, order]
    parts = [model.predict(part, context=context).belief.mean for part in data.inputs[order].split(7)]
    assert_allclose(torch.cat(parts, 1), whole, rtol=1e-5)


@pytest.mark.parametrize("name", list(MODELS))
def test_it_agrees_with_predict_where_nothing_is_drawn(name, data):
    model, context = process(name), context_for(name, data)
    expected = model.predict(data.inputs, draws=0, context=context).probabilities
    assert_allclose(model.predict(data.inputs, draws=0, context=context).probabilities, expected, rtol=1e-6)


def test_wrong_inputs_are_refused(data):
    with pytest.raises(InputError, match="row 1"):
        process("etp").predict(torch.tensor([[0.0] * 4, [float("nan")] * 4]))
    with pytest.raises(ShapeError):
        MODELS["softmax"](nn.Linear(4, 5), 3).predict(data.inputs)


@pytest.mark.parametrize("name", list(MODELS))
def test_a_prediction_says_how_its_draws_were_made(name, data):
    model, context = process(name), context_for(name, data)
    is_random = name not in ("softmax", "edl")
    found = model.predict(data.inputs, draws=5, seed=3, context=context)
    assert found.sampling == (Sampling(5, seed=3) if is_random else DETERMINISTIC)
    assert found.draws == (5 if is_random else 1)
    assert model.predict(data.inputs, draws=0, context=context).sampling == DETERMINISTIC
    assert Predictive.joined([found, found]).sampling == found.sampling
    other = model.predict(data.inputs, draws=5, seed=4, context=context)
    assert Predictive.joined([found, other]).sampling == (Sampling(5) if is_random else DETERMINISTIC)
    assert torch.equal(found.belief.mean, other.belief.mean) is not is_random


@pytest.mark.parametrize("name", list(MODELS))
def test_a_row_s_prediction_is_that_of_another_precision_to_rounding(name, data):
    model, context = process(name), context_for(name, data)
    found = model.predict(data.inputs, draws=5, context=context).belief.mean
    given = context and Batch(context.inputs.double(), context.labels)
    expected = model.double().predict(data.inputs.double(), draws=5, context=given).belief.mean
    assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("name", list(MODELS))
def test_no_random_number_of_the_user_s_is_used_up(name, data):
    model, context = process(name), context_for(name, data)
    state = torch.get_rng_state()
    model.predict(data.inputs, context=context)
    model.measure_default_draws(data.inputs, context)
    model.log_joint(data.inputs, data.labels, context=context)
    assert torch.equal(state, torch.get_rng_state())


class Net(nn.Module):
    """One layer twice, another never, and a forward that counts how it is run."""

    def __init__(self, looks=False):
        super().__init__()
        self.first, self.again, self.idle = nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(4, 3)
        self.looks, self.calls, self.memory = looks, 0, True

    def forward(self, rows):
        self.calls += 1
        if not self.memory:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:75] can't allocate memory: 1 byte")
        hidden = self.first(self.first(rows).relu())
        if self.looks and hidden.sum().item() > 1e9:
            hidden = -hidden
        return self.again(hidden)


def draw_by_draw(model, inputs, draws, seed):
    """The definition: for each draw a net whose weights are μ + σ ε, read once."""
    layers, found = stochastic_layers(model.backbone), []
    (epsilons,) = SeedNoise(draws, seed).of_layers(layers)
    for draw in range(draws):
        net = Net()
        for name, layer in (("first", 0), ("again", 1)):
            own = layers[layer]
            deviation = (0.5 * own.weight_log_variance).exp()
            getattr(net, name).weight.data = own.weight_mean + deviation * epsilons[layer][draw]
            getattr(net, name).bias.data = own.bias.data
        found.append(net(inputs).softmax(-1))
    return torch.stack(found)


@pytest.mark.parametrize("draws", [1, 2, 5, 10])
@pytest.mark.parametrize("looks", [False, True], ids=["side by side", "draw by draw"])
def test_draws_of_any_net_are_nets_with_weights_of_the_seed(looks, draws, data):
    torch.manual_seed(0)
    model = MODELS["bnn"](Net(looks), 3)
    with torch.no_grad():
        expected = draw_by_draw(model, data.inputs, draws, seed=7)
    found = model.predict(data.inputs, draws=draws, seed=7).belief.mean
    assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("looks", "calls"), [(False, 1), (True, 10)])
def test_how_a_net_is_run_is_found_out_once(looks, calls, data):
    model = MODELS["bnn"](Net(looks), 3)
    model.predict(data.inputs)
    model.backbone.calls = 0
    for _ in range(3):
        model.predict(data.inputs)
    assert model.backbone.calls == 3 * calls


def test_a_first_call_that_fails_decides_nothing(data):
    model = MODELS["bnn"](Net(), 3)
    with pytest.raises(RuntimeError):
        model.predict(torch.zeros(2, 7))
    model.predict(data.inputs)
    model.backbone.calls = 0
    model.predict(data.inputs)
    assert model.backbone.calls == 1


class ChannelsLast(nn.Module):
    """What vmap does not know: a memory format that is not the usual one."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, rows):
        hidden = self.first(rows)[..., None, None].contiguous(memory_format=torch.channels_last)
        return self.last(hidden.relu().flatten(1))


class Writing(ChannelsLast):
    """It writes into its input."""

    def forward(self, rows):
        return self.last(self.first(rows.mul_(0.5)).relu())


@pytest.mark.parametrize("name", ["bnn", "etp"])
def test_a_net_that_vmap_does_not_bear_is_run_draw_by_draw(name, data):
    torch.manual_seed(0)
    unusual = ChannelsLast()
    usual = nn.Sequential(unusual.first, nn.ReLU(), unusual.last)
    torch.manual_seed(1)
    found = MODELS[name](unusual, 3).predict(data.inputs).belief.mean
    torch.manual_seed(1)
    assert_allclose(found, MODELS[name](usual, 3).predict(data.inputs).belief.mean, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("draws", [0, 1, 10])
def test_a_net_that_writes_into_its_input_leaves_the_rows_as_they_were(draws, data):
    model, rows = MODELS["bnn"](Writing(), 3), data.inputs.clone()
    first = model.predict(rows, draws=draws).probabilities
    assert torch.equal(rows, data.inputs)
    assert torch.equal(model.predict(rows, draws=draws).probabilities, first)


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("used", [False, True], ids=["first call", "later"])
def test_a_lack_of_memory_is_told(looks, used, data):
    model = MODELS["bnn"](Net(looks), 3)
    if used:
        model.predict(data.inputs)
    model.backbone.memory = False
    with pytest.raises(RuntimeError, match="allocate memory"):
        model.predict(data.inputs)
    model.backbone.memory = True
    assert model.predict(data.inputs).probabilities.isfinite().all()


def test_a_lack_of_memory_at_the_very_first_call_is_told_and_decides_nothing(data):
    model = MODELS["bnn"](Net(), 3)
    expected = copy.deepcopy(model).predict(data.inputs).probabilities
    lack = [torch.OutOfMemoryError("none is left")]
    handle = model.backbone.register_forward_pre_hook(lambda *_: raise_once(lack))
    with pytest.raises(torch.OutOfMemoryError):
        model.predict(data.inputs)
    assert_allclose(model.predict(data.inputs).probabilities, expected, rtol=1e-5)
    handle.remove()


def raise_once(errors):
    if errors:
        raise errors.pop()


def test_a_layer_that_is_put_in_or_looked_at_later_is_seen(data):
    model = process("bnn")
    before = model.predict(data.inputs).probabilities
    calls = []
    handle = model.backbone[0].register_forward_hook(lambda *_: calls.append(1))
    assert_allclose(model.predict(data.inputs).probabilities, before, rtol=1e-5)
    assert calls
    handle.remove()
    model.backbone[1] = nn.Tanh()
    assert not torch.allclose(model.predict(data.inputs).probabilities, before, rtol=1e-3)


def test_a_model_leaves_nothing_of_its_predictions_in_copies_and_pickles(data):
    model = process("bnn")
    size = len(pickle.dumps(model))
    expected = model.predict(data.inputs).probabilities
    assert len(pickle.dumps(model)) == size
    assert torch.equal(copy.deepcopy(model).predict(data.inputs).probabilities, expected)


def perceptron(depth):
    torch.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (nn.Linear(16, 16), nn.ReLU())]
    model = MODELS["bnn"](nn.Sequential(nn.Linear(4, 16), nn.ReLU(), *layers, nn.Linear(16, 3)), 3)
    for layer in stochastic_layers(model.backbone):
        layer.weight_mean.data.mul_(2.5)
        layer.weight_log_variance.data.fill_(-3.0)
    return model


@pytest.mark.parametrize(("depth", "expected"), [(0, "moments"), (3, 10)])
def test_moments_are_the_default_where_they_are_measured_to_be_as_good_as_ten_draws(depth, expected, data):
    model = perceptron(depth)
    assert model.default_draws == 10
    assert model.measure_default_draws(data.inputs) == model.default_draws == expected
    truth = model.predict(data.inputs, draws=4000, seed=9)
    ratio = model.predict(data.inputs, draws="moments").decompose().reducible.sum() / (
        truth.decompose().reducible.sum()
    )
    assert (0.85 < ratio < 1.15) == (expected == "moments")
    wanted = BY_MOMENTS if expected == "moments" else Sampling(10, 0)
    assert model.predict(data.inputs).sampling == wanted


def test_a_net_without_rules_for_moments_goes_on_drawing(data):
    model = MODELS["bnn"](nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3)), 3)
    assert model.measure_default_draws(data.inputs) == 10
    with pytest.raises(NoMomentRuleError, match="LayerNorm"):
        model.predict(data.inputs, draws="moments")


def test_training_measures_and_a_file_keeps_what_was_measured(data, tmp_path):
    model = perceptron(0)
    fit(model, data, epochs=1, progress=False)
    assert model.default_draws == "moments"
    assert evaluate(model, data).sampling == BY_MOMENTS
    save(model, tmp_path / "model.totalcal")
    again = load(
        tmp_path / "model.totalcal", backbone=nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    )
    assert again.predict(data.inputs).sampling == BY_MOMENTS


def _stepped(model):
    optimizer = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], 0.5)
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()


def _written_behind_the_back_of_autograd(model):
    for weight in model.parameters():
        weight.data.mul_(0.5)
        weight.data[0] += 0.25


def _one_weight_written_behind_its_back(model):
    stochastic_layers(model.backbone)[0].weight_log_variance.data[0, 0] = 3.0


def _put_in_another_order(model):
    for layer in stochastic_layers(model.backbone):
        variances = layer.weight_log_variance.data
        variances.uniform_(-6, 1, generator=torch.Generator().manual_seed(0))
        for draws in (1, 10, "moments"):
            model.predict(torch.ones(1, 6), draws=draws)
        variances.copy_(variances.flatten().roll(2).view_as(variances))


def _put_in(model):
    for layer in stochastic_layers(model.backbone):
        layer.weight_log_variance = torch.nn.Parameter(layer.weight_log_variance.detach() + 1)


def _given_other_data(model):
    for layer in stochastic_layers(model.backbone):
        layer.weight_log_variance.data = layer.weight_log_variance.detach() + 1


def _loaded(model):
    model.load_state_dict({name: 0.75 * value for name, value in model.state_dict().items()}, strict=False)


@pytest.mark.parametrize("draws", [1, 10, "moments"])
@pytest.mark.parametrize(
    "changed",
    [
        _stepped,
        _written_behind_the_back_of_autograd,
        _one_weight_written_behind_its_back,
        _put_in_another_order,
        _put_in,
        _given_other_data,
        _loaded,
        torch.nn.Module.double,
    ],
)
def test_a_prediction_is_of_the_weights_of_now_however_they_were_changed(changed, draws) -> None:
    torch.manual_seed(0)
    layers = (
        torch.nn.Linear(6, 8),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 6),
        torch.nn.ReLU(),
        torch.nn.Linear(6, 3),
    )
    model = MODELS["etp"](torch.nn.Sequential(*layers), num_classes=3)
    inputs = torch.randn(5, 6)
    before = model.predict(inputs, draws=draws).probabilities
    torch.testing.assert_close(model.predict(inputs, draws=draws).probabilities, before, rtol=0, atol=0)
    changed(model)
    found, afresh = (
        each.predict(inputs, draws=draws).probabilities for each in (model, copy.deepcopy(model))
    )
    torch.testing.assert_close(found, afresh, rtol=0, atol=0)
    if changed is not torch.nn.Module.double:
        assert not torch.equal(found, before)
