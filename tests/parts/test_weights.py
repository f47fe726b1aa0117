"""Mean-field layers against draws of their weights."""

import pytest
import torch
from torch import nn

from totalcal.errors import InputError, TotalcalError, UnknownNameError
from totalcal.parts.sampling import MEANS, Noise, SeedNoise, sampling
from totalcal.parts.weights import (
    LogUniformPrior,
    MeanFieldConv2d,
    MeanFieldLinear,
    NormalPrior,
    mean_field,
    point_layers,
    total_weight_kl,
)


def wide(layer: MeanFieldLinear | MeanFieldConv2d) -> MeanFieldLinear | MeanFieldConv2d:
    """The same layer with variances that show."""
    layer.weight_log_variance.data.fill_(-2.0)
    return layer


def trained_with(layer: nn.Module, inputs: torch.Tensor, draws: int) -> torch.Tensor:
    """As a training step draws: each row by itself, where that is exact."""
    noise, found = Noise(torch.Generator().manual_seed(0)), []
    for _ in range(draws):
        with sampling(noise), torch.no_grad():
            found.append(layer(inputs))
    return torch.stack(found)


def predicted_with(
    layer: MeanFieldLinear | MeanFieldConv2d, inputs: torch.Tensor, draws: int
) -> torch.Tensor:
    """As a prediction draws: weights, which all rows share."""
    noise, found = SeedNoise(draws, 0, paired=False), []
    for (epsilons,) in noise.of_layers([layer]):
        for epsilon in epsilons:
            with sampling(noise, {layer: epsilon}), torch.no_grad():
                found.append(layer(inputs))
    return torch.stack(found)


def convnet() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))


@pytest.mark.parametrize("layers", ["linear", ["head.0"]])
def test_a_layer_in_several_places_stays_one_layer(layers) -> None:
    shared = nn.Linear(3, 3)
    net = nn.ModuleDict({"head": nn.Sequential(shared, nn.ReLU()), "tail": nn.Sequential(shared)})
    found = mean_field(net, layers)
    assert isinstance(found["head"][0], MeanFieldLinear)
    assert found["head"][0] is found["tail"][0]
    assert net["head"][0] is shared


def test_local_and_drawn_outputs_have_the_same_moments() -> None:
    torch.manual_seed(0)
    layer, inputs = wide(MeanFieldLinear(nn.Linear(5, 3), NormalPrior())), torch.randn(2, 5)
    local, drawn = (draw(layer, inputs, 8000) for draw in (trained_with, predicted_with))
    torch.testing.assert_close(local.mean(0), drawn.mean(0), rtol=0.05, atol=0.05)
    torch.testing.assert_close(local.std(0), drawn.std(0), rtol=0.05, atol=0.0)


def test_rows_are_independent_locally_and_move_together_when_shared() -> None:
    layer, inputs = wide(MeanFieldLinear(nn.Linear(5, 1), NormalPrior())), torch.ones(2, 5)
    local, shared = (draw(layer, inputs, 4000)[..., 0] for draw in (trained_with, predicted_with))
    assert abs(torch.corrcoef(local.T)[0, 1]) < 0.05
    torch.testing.assert_close(shared[:, 0], shared[:, 1])


def test_positions_that_share_weights_share_the_draw() -> None:
    """Noise at each output would average out; the variance of shared weights does not."""
    layer = wide(MeanFieldConv2d(nn.Conv2d(1, 1, 3), NormalPrior()))
    pooled = trained_with(layer, torch.ones(1, 1, 12, 12), 3000).mean((-1, -2)).flatten()
    true_variance = 9 * torch.exp(torch.tensor(-2.0))  # nine taps of ones
    torch.testing.assert_close(pooled.var(), true_variance, rtol=0.1, atol=0)


def test_tokens_share_one_draw() -> None:
    layer = wide(MeanFieldLinear(nn.Linear(4, 2), NormalPrior()))
    tokens = trained_with(layer, torch.ones(1, 6, 4), 1)[0, 0]
    assert (tokens == tokens[0]).all()


def test_an_all_zero_row_has_finite_gradients() -> None:
    layer = MeanFieldLinear(nn.Linear(5, 3), NormalPrior())
    with sampling(Noise()):
        layer(torch.zeros(1, 5)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters() if p.grad is not None)


def test_trained_weights_are_kept_as_means_and_the_original_is_left_alone() -> None:
    net, inputs = convnet(), torch.randn(2, 1, 6, 6)
    converted = mean_field(net, "all")
    with sampling(MEANS):
        torch.testing.assert_close(converted(inputs), net(inputs))
    assert isinstance(net[0], nn.Conv2d)
    assert isinstance(net[3], nn.Linear)


@pytest.mark.parametrize(
    ("layers", "converted"), [("linear", {"3"}), ("all", {"0", "3"}), ("none", set()), (["0"], {"0"})]
)
def test_the_chosen_layers_are_converted(layers: str | list[str], converted: set[str]) -> None:
    net = mean_field(convnet(), layers)
    found = {n for n, m in net.named_modules() if isinstance(m, MeanFieldLinear | MeanFieldConv2d)}
    assert found == converted


def test_a_bare_layer_is_converted_itself() -> None:
    assert isinstance(mean_field(nn.Linear(3, 2)), MeanFieldLinear)


def test_the_weight_kl_is_the_sum_over_layers_and_zero_for_points() -> None:
    net = mean_field(convnet(), "all")
    expected = torch.zeros(())
    for layer in (net[0], net[3]):
        posterior = torch.distributions.Normal(layer.weight_mean, (0.5 * layer.weight_log_variance).exp())
        prior = torch.distributions.Normal(0.0, 10**-0.5)
        expected = expected + torch.distributions.kl_divergence(posterior, prior).sum()
    torch.testing.assert_close(total_weight_kl(net), expected)
    assert total_weight_kl(convnet()) == 0


def test_another_prior_gives_another_kl() -> None:
    net = mean_field(convnet(), "linear", LogUniformPrior())
    kl = total_weight_kl(net)
    kl.backward()
    assert torch.isfinite(kl)
    assert torch.isfinite(net[3].weight_mean.grad).all()


def test_log_variances_stay_within_their_limits() -> None:
    layer = MeanFieldLinear(nn.Linear(2, 2), NormalPrior())
    layer.weight_log_variance.data.fill_(40.0)
    assert (layer.log_variance <= 11).all()


def test_an_unknown_layer_is_named_with_its_nearest() -> None:
    with pytest.raises(UnknownNameError, match="linear"):
        mean_field(convnet(), "linaer")
    with pytest.raises(UnknownNameError, match="Known: 0, 3"):
        mean_field(convnet(), ["1"])


def test_padding_that_is_not_zeros_is_refused() -> None:
    with pytest.raises(InputError, match="reflect"):
        mean_field(nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect")), "all")


class Cosine(nn.Linear):
    """A layer that has a weight, and a way of its own to use it."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(nn.functional.normalize(inputs), nn.functional.normalize(self.weight))


def at_means(net: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    with sampling(MEANS), torch.no_grad():
        return net(inputs)


def test_a_subclass_of_a_layer_is_left_as_it_is_and_said() -> None:
    net, inputs = nn.Sequential(nn.Linear(4, 5), Cosine(5, 3)), torch.randn(6, 4)
    found = mean_field(net)
    assert type(found[1]) is Cosine
    torch.testing.assert_close(at_means(found, inputs), net(inputs))
    assert "subclass of Linear" in point_layers(found)["1"]
    with pytest.raises(UnknownNameError, match="Known: 0"):
        mean_field(net, ["1"])


def test_weights_that_are_computed_or_shared_stay_points() -> None:
    scaled = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    with pytest.warns(FutureWarning):
        hooked = nn.utils.weight_norm(nn.Linear(4, 4))
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    net, inputs = nn.Sequential(scaled, hooked, first, second, nn.Linear(4, 3)), torch.randn(2, 4)
    with torch.no_grad():
        hooked(inputs)  # a weight with a graph cannot be copied
        found = mean_field(net)
        torch.testing.assert_close(at_means(found, inputs), net(inputs))
    assert [isinstance(layer, MeanFieldLinear) for layer in found] == [False, False, False, False, True]
    assert found[2].weight is found[3].weight
    reasons = point_layers(found)
    assert "computed" in reasons["1"]
    assert reasons["2"] == reasons["3"] == "it shares a parameter with others (2, 3)"
    assert "4" not in reasons


def test_a_head_that_is_tied_to_an_embedding_stays_tied() -> None:
    net = nn.ModuleDict({"words": nn.Embedding(7, 4), "head": nn.Linear(4, 7, bias=False)})
    net["head"].weight = net["words"].weight
    found = mean_field(net)
    assert found["head"].weight is found["words"].weight
    assert "shares a parameter" in point_layers(found)["head"]


def test_hooks_frozen_weights_and_the_mode_are_kept() -> None:
    calls = []
    layer = nn.Linear(3, 2).eval()
    layer.weight.requires_grad_(False)
    layer.register_forward_pre_hook(lambda _, inputs: calls.append("before") or (2 * inputs[0],))
    layer.register_forward_hook(lambda *_: calls.append("after"))
    layer.register_state_dict_post_hook(lambda *_: calls.append("saved"))
    found, inputs = mean_field(nn.Sequential(layer)), torch.randn(2, 3)
    torch.testing.assert_close(at_means(found, inputs), layer(inputs))
    found.state_dict()
    assert calls == ["before", "after", "before", "after", "saved"]
    assert not found[0].weight_mean.requires_grad
    assert not found[0].weight_log_variance.requires_grad
    assert found[0].bias.requires_grad
    assert not found[0].training


@pytest.mark.parametrize(
    ("layers", "converted"),
    [
        ("*.classifier", {"a.classifier", "b.classifier", "classifier"}),  # wherever it stands
        ("?.classifier", {"a.classifier", "b.classifier"}),
        (["a.*"], {"a.body", "a.classifier"}),
        ("b.body", {"b.body"}),
    ],
)
def test_layers_are_chosen_by_pattern(layers: str | list[str], converted: set[str]) -> None:
    def block() -> nn.ModuleDict:
        return nn.ModuleDict({"body": nn.Linear(2, 2), "classifier": nn.Linear(2, 2)})

    net = mean_field(nn.ModuleDict({"a": block(), "b": block(), "classifier": nn.Linear(2, 2)}), layers)
    assert {name for name, layer in net.named_modules() if isinstance(layer, MeanFieldLinear)} == converted
    with pytest.raises(UnknownNameError, match="nothing"):
        mean_field(net, "nothing*")


def test_a_transformer_keeps_its_attention_and_says_so() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    net, inputs = nn.TransformerEncoder(layer, 2).eval(), torch.randn(3, 5, 8)
    found = mean_field(net)
    torch.testing.assert_close(at_means(found, inputs), net(inputs).detach(), rtol=1e-4, atol=1e-5)
    assert "MultiheadAttention" in point_layers(found)["layers.0.self_attn"]
    for part in (part for part in found.modules() if isinstance(part, MeanFieldLinear)):
        wide(part)
    assert not torch.allclose(trained_with(found, inputs, 1)[0], net(inputs), atol=0.01)


def test_a_module_that_reaches_into_a_layer_gets_the_weights_of_the_pass() -> None:
    layer = wide(MeanFieldLinear(nn.Linear(3, 2), NormalPrior()))
    with sampling(Noise()), torch.no_grad():
        weight = layer.weight
        assert not torch.equal(weight, layer.weight_mean)
        torch.testing.assert_close(layer(torch.eye(3)) - layer.bias, weight.T)
    assert layer.weight is layer.weight_mean


def test_outside_of_any_pass_a_layer_is_at_its_mean_and_refuses_gradients() -> None:
    layer, rows = wide(MeanFieldLinear(nn.Linear(3, 2), NormalPrior())), torch.randn(4, 3)
    with torch.no_grad():
        torch.testing.assert_close(layer(rows), nn.functional.linear(rows, layer.weight_mean, layer.bias))
    with pytest.raises(TotalcalError, match="pass"):
        layer(rows)
