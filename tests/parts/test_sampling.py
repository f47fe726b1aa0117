"""Noise: whose it is, where it reaches, and what it is a function of."""

import copy
import sys
import threading

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from totalcal.errors import InputError
from totalcal.parts.sampling import (
    MEANS,
    AtMeans,
    Noise,
    SeedNoise,
    running_pass,
    sampling,
    stochastic_layers,
)
from totalcal.parts.weights import mean_field


def net() -> nn.Module:
    return mean_field(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))


def test_a_pass_ends_also_with_an_error() -> None:
    with pytest.raises(ZeroDivisionError), sampling(MEANS):
        raise ZeroDivisionError
    assert running_pass() is None


def test_each_thread_has_a_pass_of_its_own() -> None:
    found: list[object] = []
    with sampling(MEANS) as running:
        other = threading.Thread(target=lambda: found.append(running_pass()))
        other.start()
        other.join()
        assert running_pass() is running
    assert found == [None]


def test_at_its_means_a_net_is_what_it_was_made_from() -> None:
    plain = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    inputs, fixed = torch.randn(3, 4), AtMeans(mean_field(plain))
    with sampling(Noise(torch.Generator())):
        assert_close(fixed(inputs), plain(inputs))


def test_a_seed_s_noise_is_the_same_in_every_precision_and_however_much_is_drawn_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = net()
    layers = stochastic_layers(module)
    (whole,) = SeedNoise(10, seed=3).of_layers(layers)
    (double,) = SeedNoise(10, seed=3).of_layers(stochastic_layers(copy.deepcopy(module).double()))
    assert all(each.dtype is torch.float64 for each in double)
    assert_close(double[0].float(), whole[0], rtol=0, atol=0)
    monkeypatch.setattr(sys.modules[SeedNoise.__module__], "MOST_AT_ONCE", 2)
    blocks = list(SeedNoise(10, seed=3).of_layers(layers))
    assert [len(first) for first, _ in blocks] == [4, 4, 2]
    for layer, expected in enumerate(whole):
        halves = [block[layer].chunk(2) for block in blocks]
        assert_close(torch.cat([part for side in zip(*halves, strict=True) for part in side]), expected)
        assert_close(expected[5:], -expected[:5])


def test_what_several_parts_ask_for_is_independent_and_normal() -> None:
    noise, like = SeedNoise(4000, seed=0), torch.empty(0)
    found = torch.stack([noise.draws(4000, (3,), like) for _ in range(2)], 1).flatten(1)
    found = torch.cat([found, SeedNoise(4000, seed=1).draws(4000, (3,), like)], 1)[:2000]  # one half of pairs
    assert_close(found.T.corrcoef(), torch.eye(9), rtol=0, atol=0.09)
    assert_close(found.std(0), torch.ones(9), rtol=0.06, atol=0)
    again = SeedNoise(4000, seed=0).again()
    assert torch.equal(again.draws(4000, (3,), like)[:2000], found[:, :3])


@pytest.mark.parametrize(("count", "paired"), [(1, False), (2, False), (3, True), (5, True)])
def test_pairs_begin_with_three_draws(count: int, paired: bool) -> None:
    found = SeedNoise(count, seed=0).draws(count, (50,), torch.empty(0))
    assert found.shape == (count, 50)
    assert bool((found[-1] == -found[count - 1 - (count + 1) // 2]).all()) is paired


def test_fewer_than_no_draws_are_refused() -> None:
    with pytest.raises(InputError, match="0"):
        SeedNoise(-1, seed=0)
