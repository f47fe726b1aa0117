"""Several draws of a backbone: whichever way they are taken, they have the moments of single ones."""

from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from totalcal.memory.features import Collector, Tap, tap
from totalcal.parts.repeating import repeated, repeated_and_mean
from totalcal.parts.sampling import Noise, Sharing, sampling
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


def noise(seed: int = 0, sharing: Sharing = Sharing.ROWS, paired: bool = True) -> Noise:
    return Noise(torch.Generator().manual_seed(seed), sharing, paired and sharing is not Sharing.MEAN)


@cache
def single_draws() -> Tensor:
    """One pass of the chain for each draw."""
    net, own, outputs = chain(), noise(1), []
    for _ in range(DRAWS):
        with sampling(own):
            outputs.append(net(inputs()))
    return torch.stack(outputs)


@pytest.mark.parametrize("shape", [lambda net: net, Wrapped, lambda net: net.train()])
@torch.no_grad()
def test_draws_have_the_moments_of_single_ones(shape) -> None:
    found, single = repeated(shape(chain()), inputs(), DRAWS, noise()), single_draws()
    assert_close(found.mean(0), single.mean(0), rtol=0.0, atol=0.05)
    assert_close(found.std(0), single.std(0), rtol=0.06, atol=0.0)
    rows = [torch.corrcoef(each[:, :2, 0].T)[0, 1].abs().item() for each in (found, single)]
    assert max(rows) < 0.06, "each row has draws of its own"


@torch.no_grad()
def test_paired_draws_come_nearer_to_the_expectation() -> None:
    net = chain()
    many = repeated(net, inputs(), 20_000, noise()).mean(0)

    def distance(backbone: nn.Module, paired: bool) -> Tensor:
        ways = [noise(seed, paired=paired) for seed in range(1, 101)]
        means = torch.stack([repeated(backbone, inputs(), 10, way).mean(0) for way in ways])
        return (means - many).square().mean()

    for shape in (net, Wrapped(net), Branching(net)):
        assert distance(shape, paired=True) < 0.5 * distance(shape, paired=False)


@torch.no_grad()
def test_a_layer_with_randomness_of_its_own_draws_every_time() -> None:
    found = repeated(chain(Coin()), inputs(), 20, noise())
    assert len(found.mul(1e3).round().unique(dim=0)) == 20
    first = chain(Coin())[:2]  # before any layer that draws
    first.append(mean_field(nn.Linear(5, 5, bias=False)))
    nn.init.eye_(first[-1].weight_mean)
    signs = repeated(first.eval(), inputs(), 20, noise()).mean((1, 2)).sign()
    assert {-1.0, 1.0} == set(signs.tolist())


@torch.no_grad()
def test_a_layer_that_is_used_twice_runs_twice() -> None:
    relu = nn.ReLU()
    net = mean_field(nn.Sequential(nn.Linear(4, 8), relu, nn.Linear(8, 9), relu), layers=["0"]).eval()
    assert repeated(net, inputs(20), 10, noise()).min() >= 0


@pytest.mark.parametrize("place", [lambda net: net, lambda net: net[2]])
@torch.no_grad()
def test_hooks_are_called(place) -> None:
    net, calls = chain(), []
    place(net).register_forward_hook(lambda *_: calls.append("called"))
    assert repeated(net, inputs(), 10, noise()).shape == (10, 3, 3)
    assert calls


@torch.no_grad()
def test_positions_share_the_weights_of_a_draw() -> None:
    tokens = torch.ones(2, 6, 4)
    net = mean_field(nn.Sequential(nn.Linear(4, 3), nn.Tanh())).eval()
    found = repeated(net, tokens, 5, noise())
    assert_close(found, found[..., :1, :].expand_as(found))


@pytest.mark.parametrize(("sharing", "draws"), [(Sharing.MEAN, 1), (Sharing.SHARED, 10)])
@torch.no_grad()
def test_rows_that_are_alike_get_one_answer_where_noise_is_shared_or_none(sharing, draws) -> None:
    found = repeated(chain(), inputs(1).expand(4, -1), 10, noise(sharing=sharing))
    assert found.shape == (draws, 4, 3)
    assert_close(found, found[:, :1].expand_as(found))


class Stage(nn.Module):
    """A module of the user's own, which nobody knows to be deterministic."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.calls = 0

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        output: torch.Tensor = self.linear(rows)
        return output


@pytest.mark.parametrize("sharing", [Sharing.ROWS, Sharing.SHARED])
@pytest.mark.parametrize("stage", [nn.Linear(6, 6), Stage()], ids=["of torch", "of the user"])
def test_the_pass_at_means_moves_no_draw_and_is_the_pass_at_means(sharing: Sharing, stage: nn.Module) -> None:
    torch.manual_seed(0)
    net = mean_field(
        nn.Sequential(stage, nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), ["2", "4"]
    ).eval()
    rows = torch.randn(7, 6)
    taps = [Tap("1", "vector", 6), Tap("3", "vector", 5)]
    tap(net, taps)
    collector = Collector(taps, rows)
    with torch.no_grad():
        noise = [Noise(torch.Generator().manual_seed(3), sharing, paired=True) for _ in range(2)]
        drawn, mean = repeated_and_mean(net, rows, 6, noise[0], collector)
        assert torch.equal(drawn, repeated(net, rows, 6, noise[1]))
        alone = repeated(net, rows, 1, Noise(sharing=Sharing.MEAN))
    assert mean is not None
    torch.testing.assert_close(mean, alone)
    assert collector.features["1"].values.shape == (7, 6)
    assert collector.features["3"].values.shape == (7, 5)


def test_what_comes_before_the_first_layer_that_draws_runs_once_for_draws_and_mean() -> None:
    net = mean_field(nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)), ["2"]).eval()
    calls: list[int] = []
    net[0].register_forward_hook(lambda *_: calls.append(1))
    taps = [Tap("1", "vector", 6)]
    tap(net, taps)
    with torch.no_grad():
        noise = Noise(torch.Generator().manual_seed(0), paired=True)
        repeated_and_mean(net, torch.randn(4, 6), 10, noise, Collector(taps, torch.randn(4, 6)))
    assert len(calls) == 1
