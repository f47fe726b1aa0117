from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from totalcal.backbones import mlp
from totalcal.baselines import MCDropout
from totalcal.errors import InputError
from totalcal.scores import evaluate

INPUTS = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_each_pass_is_a_draw():
    predictive = MCDropout(mlp(3, 2, dropout=0.5), "logits").predict(INPUTS, draws=7, generator=generator())
    assert predictive.draws == 7
    assert predictive.decompose().reducible.max() > 0
    assert predictive.decompose().irreducible.max() == 0


def test_the_generator_repeats_it_and_the_global_one_is_left_alone():
    baseline = MCDropout(mlp(3, 2, dropout=0.5), "logits")
    torch.manual_seed(5)
    untouched = torch.rand(1)
    torch.manual_seed(5)
    first, again, other = (baseline.predict(INPUTS, generator=generator(s)).probabilities for s in (1, 1, 2))
    assert torch.equal(torch.rand(1), untouched)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_only_dropout_is_switched_on_and_modes_come_back():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).eval()
    before = net[1].running_mean.clone()
    MCDropout(net, "logits").predict(INPUTS)
    assert torch.equal(net[1].running_mean, before)
    assert not any(part.training for part in net.modules())


def test_threads_do_not_switch_each_other_s_dropout_off():
    baseline = MCDropout(mlp(3, 2, dropout=0.5).eval(), "logits")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: baseline.predict(INPUTS, draws=20), range(40)))
    assert all(prediction.decompose().reducible.max() > 0 for prediction in found)


def test_the_mean_over_many_passes_is_the_expectation():
    """One input of 1 through dropout ½ and the identity: the logit is 0 or 2, half of the time each."""
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(1, 2, bias=False))
    net[1].weight.data = torch.tensor([[1.0], [0.0]])
    predictive = MCDropout(net, "logits").predict(torch.ones(1, 1), draws=4000, generator=generator())
    expected = (0.5 + torch.sigmoid(torch.tensor(2.0))) / 2
    assert predictive.probabilities[0, 0].item() == pytest.approx(expected.item(), abs=0.01)


def test_a_verdict_can_judge_it():
    verdict = evaluate(MCDropout(mlp(3, 2, dropout=0.5), "logits"), (INPUTS, torch.arange(12) % 2), draws=4)
    assert verdict.draws == 4


def test_a_net_without_dropout_and_no_draws_are_refused():
    with pytest.raises(InputError, match="dropout layer"):
        MCDropout(mlp(3, 2), "logits")
    with pytest.raises(InputError, match="dropout layer"):
        MCDropout(nn.Dropout(0.0), "logits")
    with pytest.raises(InputError, match="one draw"):
        MCDropout(mlp(3, 2, dropout=0.5), "logits").predict(INPUTS, draws=0)
