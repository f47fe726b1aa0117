"""Several draws of a backbone: whichever way they are taken, they have the moments of single ones."""

from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from totalcal.memory.features import Collector, Tap, collecting, tap
from totalcal.parts.repeating import ExecutionPlan
from totalcal.parts.sampling import MEANS, SeedNoise, sampling
from totalcal.parts.weights import MeanFieldLinear, mean_field

DRAWS = 4000


class Wrapped(nn.Module):
    """Hides a chain from those who look for one."""

    def __init__(self, chain: nn.Module) -> None:
        super().__init__()
        self.chain = chain

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.chain(inputs)
        return output


class Branching(Wrapped):
    """A net that vmap refuses: Python control flow on a drawn value."""

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.chain(inputs)
        return output if output.sum() > 0 else 1.0 * output


class Coin(nn.Module):
    """Randomness that nobody was told of: a sign for each draw."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * (torch.rand(()) - 0.5).sign()


def chain(*before: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)
    net = mean_field(nn.Sequential(*before, *layers), layers=[f"{len(before) + 2}", f"{len(before) + 4}"])
    for layer in net.modules():
        if isinstance(layer, MeanFieldLinear):
            layer.weight_log_variance.data.fill_(-2.0)
    assert isinstance(net, nn.Sequential)
    return net.eval()


def inputs(rows: int = 3) -> Tensor:
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(1))


def drawn(net: nn.Module, rows: Tensor, draws: int, seed: int = 0, paired: bool = True) -> Tensor:
    plan = ExecutionPlan(net)
    return plan.drawn(plan.before(rows), SeedNoise(draws, seed, paired))


@cache
def single_draws() -> Tensor:
    """One pass of the chain for each draw, with weights drawn by hand."""
    net, outputs = chain(), []
    plain = [layer for layer in net if isinstance(layer, MeanFieldLinear)]
    for _ in range(DRAWS):
        hidden = inputs()
        for layer in net:
            if layer in plain:
                weight = torch.distributions.Normal(
                    layer.weight_mean, (0.5 * layer.log_variance).exp()
                ).sample()
                hidden = hidden @ weight.T + layer.bias
            else:
                hidden = layer(hidden)
        outputs.append(hidden)
    return torch.stack(outputs)


@pytest.mark.parametrize("shape", [lambda net: net, Wrapped, Branching, lambda net: net.train()])
@torch.no_grad()
def test_draws_have_the_moments_of_single_ones(shape) -> None:
    found, single = drawn(shape(chain()), inputs(), DRAWS, seed=1), single_draws()
    assert_close(found.mean(0), single.mean(0), rtol=0.0, atol=0.08)
    assert_close(found.std(0), single.std(0), rtol=0.06, atol=0.0)
    found_rows, rows = (torch.corrcoef(each[:, :2, 0].T)[0, 1] for each in (found, single))
    assert_close(found_rows, rows, rtol=0, atol=0.05)  # rows share the draws


@torch.no_grad()
def test_every_shape_of_a_net_has_the_same_draws() -> None:
    first, *others = (drawn(shape(chain()), inputs(), 7) for shape in (nn.Sequential, Wrapped, Branching))
    for other in others:
        assert_close(other, first)


@torch.no_grad()
def test_paired_draws_come_nearer_to_the_expectation() -> None:
    net = chain()
    for layer in net.modules():
        if isinstance(layer, MeanFieldLinear):
            layer.weight_log_variance.data.fill_(-4.0)
    many = drawn(net, inputs(), 20_000).mean(0)

    def distance(paired: bool) -> Tensor:
        means = [drawn(net, inputs(), 10, seed, paired).mean(0) for seed in range(1, 101)]
        return (torch.stack(means) - many).square().mean()

    assert distance(paired=True) < 0.5 * distance(paired=False)


@torch.no_grad()
def test_a_layer_with_randomness_of_its_own_draws_every_time() -> None:
    found = drawn(chain(Coin()), inputs(), 20)
    assert len(found.mul(1e3).round().unique(dim=0)) == 20
    first = chain(Coin())[:2]  # before any layer that draws
    first.append(mean_field(nn.Linear(5, 5, bias=False)))
    nn.init.eye_(first[-1].weight_mean)
    signs = drawn(first.eval(), inputs(), 20).mean((1, 2)).sign()
    assert {-1.0, 1.0} == set(signs.tolist())


@torch.no_grad()
def test_a_layer_that_is_used_twice_runs_twice() -> None:
    relu = nn.ReLU()
    net = mean_field(nn.Sequential(nn.Linear(4, 8), relu, nn.Linear(8, 9), relu), layers=["0"]).eval()
    assert drawn(net, inputs(20), 10).min() >= 0


@pytest.mark.parametrize("place", [lambda net: net, lambda net: net[2]])
@torch.no_grad()
def test_hooks_are_called(place) -> None:
    net, calls = chain(), []
    place(net).register_forward_hook(lambda *_: calls.append("called"))
    assert drawn(net, inputs(), 10).shape == (10, 3, 3)
    assert calls


@torch.no_grad()
def test_positions_share_the_weights_of_a_draw() -> None:
    tokens = torch.ones(2, 6, 4)
    net = mean_field(nn.Sequential(nn.Linear(4, 3), nn.Tanh())).eval()
    found = drawn(net, tokens, 5)
    assert_close(found, found[..., :1, :].expand_as(found))


def test_uses_of_a_layer_are_counted_and_leave_nothing_behind() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.twice, self.once = nn.Linear(4, 4), nn.Linear(4, 3)
            self.norm = nn.BatchNorm1d(4)

        def forward(self, rows: Tensor) -> Tensor:
            return self.once(self.norm(self.twice(self.twice(rows)))) + torch.rand(())  # type: ignore[no-any-return]

    net = mean_field(Twice()).eval()
    state = torch.get_rng_state()
    ExecutionPlan(net).learn_uses(inputs())
    assert (net.twice.is_reused, net.once.is_reused) == (True, False)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("nested", [False, True])
def test_what_comes_before_the_first_layer_that_draws_runs_once_for_draws_and_mean(nested: bool) -> None:
    torch.manual_seed(0)
    layers = nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)
    row = [nn.Sequential(*layers[:2]), nn.Sequential(*layers[2:])] if nested else layers
    net = mean_field(nn.Sequential(*row), ["1.0", "1.2"] if nested else ["2", "4"]).eval()
    calls: list[int] = []
    first, last = (net[0][0], "1.1") if nested else (net[0], "3")
    first.register_forward_hook(lambda *_: calls.append(1))
    taps = [Tap(last, "vector", 5)]
    tap(net, taps)
    rows = torch.randn(7, 6)
    plan, collector = ExecutionPlan(net), Collector(taps, rows)
    with torch.no_grad():
        with collecting(collector):
            mean, hidden, _ = plan.at_means(rows)
        found = plan.drawn(hidden, SeedNoise(6, 3))
        assert len(calls) == 1
        assert_close(found, drawn(net, rows, 6, 3))
        with sampling(MEANS):
            assert_close(mean, net(rows))
    assert collector.features[last].values.shape == (7, 5)


@torch.no_grad()
def test_draws_share_the_pass_at_means_where_one_layer_draws_and_ends_the_net() -> None:
    class Own(Wrapped):
        def __init__(self, chain: nn.Module, own: nn.Module) -> None:
            super().__init__(chain)
            self.own, self.classes, self.calls = own, nn.Linear(5, 3), 0

        def forward(self, inputs: Tensor) -> Tensor:
            self.calls += 1
            output: Tensor = self.classes(self.own(self.chain(inputs)))
            return output

    class Doubled(Own):
        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(inputs).mul_(2)  # the same tensor, written over

    def found(kind: type[Own], own: nn.Module) -> tuple[int, Tensor, Tensor]:
        torch.manual_seed(0)
        net = mean_field(kind(nn.Linear(4, 5), own), "classes").eval()
        plan, rows = ExecutionPlan(net), inputs(7)
        plan.learn_whether_it_repeats(rows)
        net.calls, noise = 0, SeedNoise(6, 3)
        _, hidden, last = plan.at_means(rows)
        together = plan.drawn(hidden, noise, last)
        return net.calls, together, drawn(net, rows, 6, 3)

    calls, together, alone = found(Own, nn.Tanh())
    assert calls == 1
    assert_close(together, alone)
    calls, together, alone = found(Doubled, nn.Tanh())
    assert calls > 1
    assert_close(together, alone)
    assert found(Own, Coin())[0] > 1  # each draw has a sign of its own
