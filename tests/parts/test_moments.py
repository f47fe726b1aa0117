"""Moments through nets: against draws of the same nets."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from totalcal.functional.moments import Moments
from totalcal.nets import mlp, small_convnet
from totalcal.parts.latents import ExternalMemory, IdentityKeys, LinearKeys, NoLatent, SetLatent
from totalcal.parts.moments import (
    NoMomentRuleError,
    embedding_points,
    moment_rule,
    propagate,
    readout_points,
)
from totalcal.parts.repeating import ExecutionPlan
from totalcal.parts.sampling import Noise, SeedNoise
from totalcal.parts.weights import MeanFieldConv2d, MeanFieldLinear, mean_field

from ..nets import resnet18


class Residual(nn.Module):
    """A net with a forward of its own, in which moments have to find their way."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = F.relu(self.first(inputs)).view(inputs.size(0), -1)
        return self.last(torch.flatten(hidden + torch.tanh(self.inner(hidden)), 1))  # type: ignore[no-any-return]


def random_weights(net: nn.Module, layers: str = "linear", log_variance: float = -4.0) -> nn.Module:
    torch.manual_seed(0)
    for module in net.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    converted = mean_field(net, layers).eval()
    for layer in converted.modules():
        if isinstance(layer, MeanFieldLinear | MeanFieldConv2d):
            layer.weight_log_variance.data.fill_(log_variance)
    return converted


def drawn_of(net: nn.Module, rows: Tensor, draws: int) -> Tensor:
    plan = ExecutionPlan(net)
    return plan.drawn(plan.before(rows), SeedNoise(draws, 1))


def inputs(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("net", "rows", "mean_within", "deviation_within"),
    [
        (mlp(6, 3, (16,)), inputs(4, 6), 0.03, 0.03),
        (mlp(6, 3, (16, 16)), inputs(4, 6), 0.05, 0.05),
        (
            nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)),
            inputs(4, 6),
            0.06,
            0.15,  # units of the second hidden layer share those of the first
        ),
        (small_convnet(3, widths=(4, 8, 16)), inputs(4, 1, 8, 8), 0.03, 0.03),
        (Residual(), inputs(4, 6), 0.06, 0.25),  # hidden and what is added to it are taken as independent
    ],
    ids=["one hidden layer", "two hidden layers", "gelu and tanh", "behind convolutions", "residual"],
)
@torch.no_grad()
def test_points_have_the_mean_and_the_deviation_of_draws(net, rows, mean_within, deviation_within) -> None:
    net = random_weights(net)
    found, drawn = embedding_points(net, rows), drawn_of(net, rows, 20_000)
    distance = (found.mean(0) - drawn.mean(0)).abs() / drawn.std(0)
    assert distance.max() < mean_within
    assert_close(found.std(0, correction=0), drawn.std(0), rtol=deviation_within, atol=0)


@torch.no_grad()
def test_the_classes_move_together_as_they_do_in_draws() -> None:
    net = random_weights(mlp(6, 3, (16,)))
    net.classes.weight_mean.data.mul_(5)
    found, drawn = (
        embedding_points(net, inputs(1, 6))[:, 0],
        drawn_of(net, inputs(1, 6), 40_000)[:, 0],
    )
    assert_close(torch.cov(found.T, correction=0), torch.cov(drawn.T), rtol=0.05, atol=0.02)
    assert torch.corrcoef(drawn.T).tril(-1).abs().max() > 0.3


@torch.no_grad()
def test_positions_that_share_weights_are_where_moments_are_approximate() -> None:
    net = random_weights(resnet18(3, width=4), layers="all", log_variance=-6.0)
    rows = inputs(2, 3, 16, 16)
    found, drawn = embedding_points(net, rows), drawn_of(net, rows, 400)
    ratio = found.std(0, correction=0) / drawn.std(0)
    assert ratio.min() > 0.5
    assert ratio.max() < 2


@torch.no_grad()
def test_a_row_has_one_answer_whatever_the_batch_and_however_often_it_is_asked() -> None:
    net = random_weights(mlp(6, 3, (16,))).double()
    rows = inputs(5, 6).double()
    assert_close(embedding_points(net, rows), embedding_points(net, rows), rtol=0, atol=0)
    one_by_one = torch.cat([embedding_points(net, row) for row in rows.split(1)], 1)
    assert_close(embedding_points(net, rows), one_by_one, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_a_net_of_point_weights_gives_one_point_whatever_it_is_made_of() -> None:
    net = nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 3))
    assert_close(embedding_points(net, inputs(4, 6)), net(inputs(4, 6)).unsqueeze(0))


def test_gradients_reach_means_and_variances() -> None:
    net = random_weights(mlp(6, 3, (16,)))
    embedding_points(net, inputs(4, 6)).softmax(-1).square().sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in net.parameters())


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.MaxPool2d(2), (2, 3, 6, 6)),
        (nn.MaxPool2d(3, stride=2, padding=1), (2, 3, 7, 7)),
        (nn.AvgPool2d(2), (2, 3, 6, 6)),
        (nn.AdaptiveAvgPool2d(1), (2, 3, 5, 5)),
        (nn.BatchNorm2d(3).eval(), (2, 3, 4, 4)),
        (nn.BatchNorm1d(3).eval(), (2, 3)),
        (nn.Dropout(0.5).eval(), (2, 3)),
        (nn.Dropout(0.5), (2, 3)),
        (nn.Flatten(), (2, 3, 4, 4)),
        (nn.Conv2d(3, 2, 3, stride=2, padding=1), (2, 3, 6, 6)),
        (nn.Sigmoid(), (2, 3)),
    ],
    ids=lambda value: str(value),
)
@torch.no_grad()
def test_rules_agree_with_draws_of_independent_entries(layer, shape) -> None:
    torch.manual_seed(0)
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        layer.running_mean.normal_(), layer.running_var.uniform_(0.5, 2), layer.weight.data.normal_()
    given = Moments(torch.randn(shape), 0.1 + torch.rand(shape))
    found = propagate(layer, given)
    noise = torch.randn(10_000, *shape)
    drawn = layer((given.mean + given.variance.sqrt() * noise).flatten(0, 1)).unflatten(0, (10_000, shape[0]))
    assert isinstance(found, Moments)
    assert_close(found.mean, drawn.mean(0), rtol=0, atol=0.06)
    assert_close(
        found.variance, drawn.var(0), rtol=0.35 if isinstance(layer, nn.MaxPool2d) else 0.1, atol=1e-3
    )


def test_a_layer_that_nobody_has_taught_is_named() -> None:
    net = random_weights(nn.Sequential(nn.Linear(6, 4), nn.Sequential(nn.LayerNorm(4)), nn.Linear(4, 3)))
    with pytest.raises(NoMomentRuleError, match="LayerNorm") as caught:
        embedding_points(net, inputs(2, 6))
    assert caught.value.layer is net.get_submodule("1.0")


def test_a_rule_of_ones_own_is_followed() -> None:
    class Third(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            return rows / 3

    net = random_weights(nn.Sequential(nn.Linear(6, 3), Third()))
    with pytest.raises(NoMomentRuleError, match="no rule, and no layers"):
        embedding_points(net, inputs(2, 6))
    moment_rule(Third)(lambda layer, given: Moments(given.mean / 3, given.variance / 9))
    assert_close(embedding_points(net, inputs(2, 6)), embedding_points(net[:1], inputs(2, 6)) / 3)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (nn.BatchNorm1d(4), "rows depend on each other"),
        (nn.RReLU(), "no rule"),
    ],
)
def test_layers_that_look_at_other_rows_or_draw_by_themselves_are_refused(layer, reason) -> None:
    net = random_weights(nn.Sequential(nn.Linear(6, 4), layer, nn.Linear(4, 3))).train()
    with pytest.raises(NoMomentRuleError, match=reason):
        embedding_points(net, inputs(4, 6))


def test_a_layer_with_hooks_is_left_to_passes_of_the_net() -> None:
    net = random_weights(nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)))
    net[1].register_forward_hook(lambda *_: None)
    with pytest.raises(NoMomentRuleError, match="hooks"):
        embedding_points(net, inputs(2, 6))


@pytest.mark.parametrize("keys", [IdentityKeys(), LinearKeys(4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())])
@torch.no_grad()
def test_readouts_of_a_memory_agree_with_a_hundred_thousand_draws(keys) -> None:
    torch.manual_seed(0)
    memory = ExternalMemory(6, 4, cell_variance=0.2, key_map=keys)
    memory.cells.normal_()
    embedding = 2 * torch.randn(1, 8, 4)
    found, drawn = readout_points(memory, embedding, None), memory.draw(embedding, None, 100_000, Noise())
    is_linear = isinstance(keys, IdentityKeys | LinearKeys)
    distance = (found.mean(0) - drawn.mean(0)).abs() / drawn.std(0)
    assert distance.mean() < (0.12 if is_linear else 0.4)
    ratio = found.var(0, correction=0) / drawn.var(0)
    assert abs(ratio.mean() - 1) < (0.2 if is_linear else 0.5)
    few = memory.draw(embedding, None, len(found), Noise(torch.Generator().manual_seed(3)))
    if is_linear:
        assert distance.mean() < ((few.mean(0) - drawn.mean(0)).abs() / drawn.std(0)).mean()


@torch.no_grad()
def test_other_latents_read_with_one_fixed_noise() -> None:
    embedding = torch.randn(1, 5, 3)
    assert readout_points(NoLatent(), embedding, None).shape == (1, 5, 0)
    latent = SetLatent(3, width=4)
    first, second = (readout_points(latent, embedding, None) for _ in range(2))
    assert first.shape == (16, 5, 4)
    assert_close(first, second, rtol=0, atol=0)
    assert math.isclose(first.std().item(), 1.0, abs_tol=0.4)
