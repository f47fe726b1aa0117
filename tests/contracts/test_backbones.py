"""Every model with nets as people have them: threads, hooks, recurrences, attention, batch statistics."""

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from totalcal import MODELS, Batch, Predictor, TuringProcess
from totalcal.errors import TotalcalError
from totalcal.parts import same_draws
from totalcal.parts.sampling import stochastic_layers

AsJudged = Callable[[TuringProcess], Predictor]
CLASSES, FEATURES = 3, 4


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(inputs + torch.relu(self.first(inputs)))


class Recurrence(nn.Module):
    """One layer, used at each of several steps."""

    def __init__(self, steps: int = 6) -> None:
        super().__init__()
        self.steps, self.cell, self.last = steps, nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = inputs
        for _ in range(self.steps):
            hidden = torch.tanh(self.cell(hidden))
        return self.last(hidden)


class Attention(nn.Module):
    """A transformer encoder over tokens of one feature each."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Linear(1, 8)
        layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.last = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        padding = torch.tensor([False] * (FEATURES - 1) + [True]).expand(len(inputs), -1)
        encoded = self.encoder(self.token(inputs.unsqueeze(-1)), src_key_padding_mask=padding)
        return self.last(encoded[:, : FEATURES - 1].mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.last = nn.LSTM(1, 6, batch_first=True), nn.Linear(6, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.lstm(inputs.unsqueeze(-1))[0][:, -1])


class Branching(Residual):
    """vmap refuses it: Python control flow on a drawn value."""

    def forward(self, inputs: Tensor) -> Tensor:
        output = super().forward(inputs)
        return output if output.sum() > 0 else 1.0 * output


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 5, 2), nn.Flatten(), nn.Linear(5, CLASSES))


def batch_norm(track: bool = True) -> nn.Module:
    middle = nn.BatchNorm1d(8, track_running_stats=track)
    return nn.Sequential(nn.Linear(FEATURES, 8), middle, nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, CLASSES))


NETS = [plain, Residual, Recurrence, Attention, Recurrent, Branching, convolutions, batch_norm]


def made(name: str, net: Callable[[], nn.Module], log_variance: float = -3.0) -> TuringProcess:
    torch.manual_seed(0)
    model = MODELS[name](net(), num_classes=CLASSES)
    for layer in stochastic_layers(model.backbone):
        nn.init.constant_(layer.weight_log_variance, log_variance)
    return model


def context_for(model: TuringProcess, data: Batch) -> Batch | None:
    return Batch(data.inputs[-8:], data.labels[-8:]) if model.context_use.name == "REQUIRED" else None


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("net", [plain, Residual, Recurrence, batch_norm])
def test_many_threads_predict_as_one_does(name: str, net: Callable[[], nn.Module], data: Batch) -> None:
    model = made(name, net)  # in training mode, and not yet used
    context, rows = context_for(model, data), data.inputs[:7]

    def predicted(call: int) -> Tensor:
        return model.predict(rows, draws=3 + call % 4, context=context, seed=call).belief.mean

    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(predicted, range(40)))
    for found, expected in zip(together, map(predicted, range(40)), strict=True):
        assert torch.equal(found, expected)
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize("net", NETS)
def test_a_model_trains_and_predicts_around_any_net(
    name: str, net: Callable[[], nn.Module], data: Batch
) -> None:
    model = made(name, net)
    model(data.inputs, data.labels, context=10).total(examples=96).backward()
    context = context_for(model, data)
    first, second = (model.predict(data.inputs, draws=10, context=context, seed=1) for _ in range(2))
    assert torch.equal(first.belief.mean, second.belief.mean)
    torch.testing.assert_close(first.probabilities.sum(-1), torch.ones(len(data.labels)).double())


@pytest.mark.parametrize("net", NETS)
def test_ten_draws_say_on_average_what_many_say(net: Callable[[], nn.Module], data: Batch) -> None:
    """E[reducible] does not depend on the number of draws, nor on how a net's structure lets them be made."""
    model, rows = made("bnn", net, log_variance=-2.0).eval(), data.inputs[:4]

    def reducible(draws: int, seed: int) -> Tensor:
        return model.predict(rows, draws=draws, seed=seed).decompose().reducible.sum()

    few = torch.stack([reducible(10, seed) for seed in range(300)])
    error = few.std() / 300**0.5
    many = reducible(4000, 1000)
    assert (few.mean() - many).abs() < 4 * error + 0.03 * many
    assert error < 0.06 * many, "the test would see a bias of a tenth"


@pytest.mark.parametrize("way", ["predict", "encode"])
def test_a_layer_that_is_used_again_keeps_its_weights(way: str) -> None:
    """Twenty steps of h ← h + w h / 20 with w ~ N(0, σ²): the variance is that of (1 + w / 20)²⁰."""

    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.Linear(1, 1, bias=False)

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = inputs
            for _ in range(20):
                hidden = hidden + self.cell(hidden) / 20
            return torch.cat([hidden, torch.zeros_like(hidden).expand(-1, CLASSES - 1)], 1)

    model = made("bnn", Steps, log_variance=0.0)
    nn.init.zeros_(model.backbone.cell.weight_mean)
    rows = torch.ones(2, 1)
    if way == "encode":
        logits = (
            torch.stack([model.encode(rows, seeded(seed))[:, 0] for seed in range(3000)]).detach().double()
        )
    else:
        log_mean = model.predict(rows, draws=20_000).belief.log_mean
        logits = log_mean[..., 0] - log_mean[..., 1]
    weights = torch.randn(1_000_000, generator=seeded(), dtype=torch.float64)
    expected = (1 + weights / 20).pow(20).log().var()  # of a log: the distribution itself has heavy tails
    torch.testing.assert_close(logits.log().var(0), expected.expand(2), rtol=0.1, atol=0)


def test_hooks_see_what_a_net_does_and_what_they_keep_stays(name: str, data: Batch) -> None:
    torch.manual_seed(0)
    net, kept = plain(), []
    net[0].register_forward_hook(lambda _, __, output: kept.append((output, output.clone())))
    net[1].register_forward_hook(lambda _, __, output: kept.append((output, output.clone())))
    model = MODELS[name](net, num_classes=CLASSES)
    model.predict(data.inputs, context=context_for(model, data))
    model.predict(data.inputs, draws=0, context=context_for(model, data))
    model.encode(data.inputs)
    outside = [(seen, copied) for seen, copied in kept if not torch._C._functorch.is_batchedtensor(seen)]
    assert len(kept) >= 6
    assert outside
    assert all(torch.equal(seen, copied) for seen, copied in outside)


@pytest.mark.parametrize("track", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_predictions_leave_batch_statistics_alone_and_do_not_mix_draws(
    name: str, data: Batch, track: bool, training: bool
) -> None:
    model = made(name, lambda: batch_norm(track)).train(training)
    context, before = context_for(model, data), copy.deepcopy(model.state_dict())
    found = model.predict(data.inputs, draws=5, context=context)
    model.log_joint(data.inputs[:4], data.labels[:4], draws=5, context=context)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert model.training is training
    expected = model.train(not training).predict(data.inputs, draws=5, context=context)
    assert torch.equal(found.belief.mean, expected.belief.mean)
    if context is None and not track:  # a draw is what it would be without the other draws
        alike = made(name, lambda: batch_norm(track), log_variance=-60.0)
        for layer in stochastic_layers(alike.backbone):
            layer.weight_log_variance.data.fill_(-11.0)
        single = alike.predict(data.inputs, draws=0).belief.log_mean
        several = alike.predict(data.inputs, draws=6).belief.log_mean
        assert (several.mean(0) - single[0]).abs().max() < 1.0


def test_a_process_shares_nothing_with_the_net_it_was_given(name: str, data: Batch) -> None:
    net = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.Linear(8, CLASSES)).eval()
    net[0].weight.requires_grad_(False)
    before = copy.deepcopy(net.state_dict())
    first, second = (MODELS[name](net, num_classes=CLASSES) for _ in range(2))
    groups = [{t.data_ptr() for t in m.state_dict().values() if t.numel()} for m in (net, first, second)]
    assert sum(map(len, groups)) == len(set().union(*groups))
    train = torch.optim.SGD(first.parameters(), lr=0.1)
    first.train()(data.inputs, data.labels, context=10).total(examples=96).backward()
    train.step()
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert not net.training
    frozen = [weight for weight in first.backbone[0].parameters() if weight.shape == net[0].weight.shape]
    assert frozen
    assert not any(weight.requires_grad for weight in frozen)


class Checkpointed(nn.Module):
    """Runs a net again for its gradients, instead of keeping what it gave."""

    def __init__(self, inner: nn.Module, **how: Any) -> None:
        super().__init__()
        self.inner, self.how, self.on = inner, how, True

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.on:
            return self.inner(inputs)  # type: ignore[no-any-return]
        return checkpoint(self.inner, inputs.requires_grad_(), **self.how)  # type: ignore[no-any-return]


@pytest.mark.parametrize("net", [plain, Recurrence])
def test_activation_checkpoints_change_no_gradient(
    name: str, net: Callable[[], nn.Module], data: Batch
) -> None:
    model = made(name, lambda: Checkpointed(net(), use_reentrant=False, context_fn=same_draws))

    def gradients(on: bool) -> dict[str, Tensor]:
        model.backbone.on = on
        model.zero_grad()
        own = copy.deepcopy(model)
        # Two passes before one backward: each must be run again with its own noise.
        generator, inputs = seeded(4), data.inputs.clone()
        terms = [own(inputs[rows], data.labels[rows], 5, generator) for rows in torch.arange(96).split(48)]
        sum(each.total(examples=96) for each in terms).backward()
        return {key: weight.grad for key, weight in own.named_parameters() if weight.grad is not None}

    expected, found = gradients(on=False), gradients(on=True)
    assert expected.keys() == found.keys()
    for key, gradient in expected.items():
        torch.testing.assert_close(found[key], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_part_that_would_be_run_again_with_other_draws_is_refused(reentrant: bool, data: Batch) -> None:
    model = made("bnn", lambda: Checkpointed(plain(), use_reentrant=reentrant))
    terms = model(data.inputs.clone(), data.labels, 5, seeded(4))
    with pytest.raises(TotalcalError, match="same_draws"):
        terms.total(examples=96).backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("net", [plain, Recurrence, convolutions])
def test_inputs_of_half_precision_are_taken_by_every_way(
    name: str, net: Callable[[], nn.Module], dtype: torch.dtype, data: Batch
) -> None:
    model = made(name, net)
    rows, given = data.inputs.to(dtype), context_for(model, data)
    context = None if given is None else Batch(given.inputs.to(dtype), given.labels)
    expected = model.predict(
        rows.float(), draws=5, context=given and Batch(context.inputs.float(), context.labels)
    )
    torch.testing.assert_close(
        model.predict(rows, draws=5, context=context).belief.mean, expected.belief.mean
    )
    model.predict(rows, draws=5, context=context)
    model.log_joint(rows[:3], data.labels[:3], draws=5, context=context)
    assert torch.isfinite(model(rows, data.labels, 5).total(examples=96))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("net", [plain, Recurrence, Residual])
def test_a_net_of_half_precision_keeps_what_must_not_be_rounded(
    name: str, net: Callable[[], nn.Module], dtype: torch.dtype, data: Batch
) -> None:
    model = made(name, net)
    exact = {key: value.clone() for key, value in model.state_dict().items()}
    model.to(dtype)
    for key, value in model.state_dict().items():
        if "weight_mean" in key or "log_variance" in key or key.endswith("cells"):
            assert value.dtype is torch.float32
            assert torch.equal(value, exact[key])
    terms = model(data.inputs.to(dtype), data.labels, context=10)
    assert all(term == 0 or term.dtype in (torch.float32, torch.float64) for term in terms[:4])
    terms.total(examples=96).backward()
    given = context_for(model, data)
    context = None if given is None else Batch(given.inputs.to(dtype), given.labels)
    total = model.predict(data.inputs.to(dtype), draws=4, context=context).probabilities.sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total))
