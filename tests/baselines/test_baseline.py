"""Temperature scaling, dropout at test and an ensemble, each judged like a model of the family."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import nn
from torch.testing import assert_close

from totalcal import models
from totalcal.baselines import Ensemble, MCDropout, temperature_scaled
from totalcal.errors import ContextError, InputError
from totalcal.nets import mlp
from totalcal.scores import evaluate, from_arrays, from_module, nll


def overconfident(factor, size=4000, seed=0):
    """Labels are drawn from softmax(l), the predictor says softmax(factor · l): so T should be factor."""
    random = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(size, 4, generator=random, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=random).squeeze(1)
    return factor * logits, labels


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_it_finds_the_temperature_that_undoes_a_known_overconfidence(factor):
    scaled = temperature_scaled(from_arrays("logits"), overconfident(factor))
    assert scaled.temperature == pytest.approx(factor, rel=0.05)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 30), st.floats(0.01, 20))
def test_it_never_raises_the_held_out_nll(seed, size, factor):
    random = np.random.default_rng(seed)
    held_out = factor * random.normal(size=(size, 3)), random.integers(3, size=size)
    scaled = temperature_scaled(from_arrays("logits"), held_out)
    assert scaled.nll_after <= scaled.nll_before
    found = nll(scaled.predict(torch.as_tensor(held_out[0])).probabilities, held_out[1])
    assert_allclose(found, scaled.nll_after, rtol=1e-9)


def test_it_says_when_nothing_changes():
    uniform = torch.zeros(10, 3), torch.arange(10) % 3
    scaled = temperature_scaled(from_arrays("logits"), uniform)
    assert scaled.temperature == 1
    assert scaled.temperature == 1
    assert "nothing changes" in str(scaled)
    assert "→" in str(temperature_scaled(from_arrays("logits"), overconfident(3.0)))


def test_it_changes_neither_the_error_nor_the_number_of_draws():
    logits, labels = overconfident(3.0, size=200)
    draws = torch.stack([logits, logits + 0.1], dim=1)
    scaled = temperature_scaled(from_arrays("logits"), (draws, labels))
    before, after = evaluate(from_arrays("logits"), (draws, labels)), evaluate(scaled, (draws, labels))
    assert before.error == after.error
    assert after.draws == 2
    assert after.nll < before.nll


def test_a_probability_is_scaled_as_its_logits_are():
    logits, labels = overconfident(2.0, size=50)
    scaled = temperature_scaled(from_arrays("probabilities"), (logits.softmax(1), labels))
    expected = (logits / scaled.temperature).softmax(1)
    assert_allclose(scaled.predict(logits.softmax(1)).probabilities, expected, rtol=1e-9)
    assert nll(expected, labels) == pytest.approx(scaled.nll_after)


def test_it_cannot_be_fitted_without_labels_or_rows():
    with pytest.raises(InputError, match="labels"):
        temperature_scaled(from_arrays("logits"), torch.zeros(3, 2))
    with pytest.raises(InputError, match="empty"):
        temperature_scaled(from_arrays("logits"), [])


def test_logits_beyond_what_a_probability_can_hold_have_a_temperature():
    logits, labels = overconfident(400.0, size=300)
    scaled = temperature_scaled(from_arrays("logits"), (logits, labels))
    assert np.isfinite([scaled.nll_before, scaled.nll_after]).all()
    assert scaled.nll_after < scaled.nll_before


class LastMean(nn.Module):
    def forward(self, rows):
        return rows.mean(1)


INPUTS = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))


def test_each_pass_is_a_draw():
    predictive = MCDropout(mlp(3, 2, dropout=0.5), "logits").predict(INPUTS, draws=7, seed=0)
    assert predictive.draws == 7
    assert predictive.decompose().reducible.max() > 0
    assert predictive.decompose().irreducible.max() == 0


def test_the_seed_repeats_it_and_the_global_one_is_left_alone():
    baseline = MCDropout(mlp(3, 2, dropout=0.5), "logits")
    torch.manual_seed(5)
    untouched = torch.rand(1)
    torch.manual_seed(5)
    first, again, other = (baseline.predict(INPUTS, seed=s).probabilities for s in (1, 1, 2))
    assert torch.equal(torch.rand(1), untouched)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("training", [False, True])
def test_only_dropout_is_switched_on_and_modes_stay(training):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).train(training)
    before = net[1].running_mean.clone()
    MCDropout(net, "logits").predict(INPUTS)
    assert torch.equal(net[1].running_mean, before)
    assert all(part.training is training for part in net.modules())


def test_it_may_predict_beside_other_predictors_of_the_same_net():
    net = mlp(3, 2, (32,), dropout=0.5)
    dropping, plain = MCDropout(net, "logits"), from_module(net, "logits")
    expected = [each.predict(INPUTS).probabilities for each in (dropping, plain)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda turn: (dropping, plain)[turn % 2].predict(INPUTS), range(300)))
    for turn, prediction in enumerate(found):
        assert torch.equal(prediction.probabilities, expected[turn % 2])
    assert all(part.training for part in net.modules())


def test_it_follows_the_weights_of_the_net():
    net = mlp(3, 2, dropout=0.5)
    baseline = MCDropout(net, "logits")
    before = baseline.predict(INPUTS).probabilities
    with torch.no_grad():
        net[-1].bias.add_(torch.tensor([5.0, 0.0]))
    assert (baseline.predict(INPUTS).probabilities[:, 0] > before[:, 0]).all()


DROPPING = {
    "units": (nn.Sequential(nn.Dropout(0.4), nn.Flatten(), nn.Linear(24, 2)), (6, 4)),
    "channels": (nn.Sequential(nn.Dropout1d(0.4), nn.Flatten(), nn.Linear(24, 2)), (6, 4)),
    "pictures": (nn.Sequential(nn.Dropout2d(0.4), nn.Flatten(), nn.Linear(24, 2)), (6, 2, 2)),
    "alpha": (nn.Sequential(nn.AlphaDropout(0.4), nn.Flatten(), nn.Linear(24, 2)), (6, 4)),
    "alpha by channels": (nn.Sequential(nn.FeatureAlphaDropout(0.4), nn.Flatten(), nn.Linear(24, 2)), (6, 4)),
    "positions": (
        nn.Sequential(nn.Flatten(0, 1), nn.Dropout(0.4), nn.Unflatten(0, (-1, 6)), LastMean()),
        (6, 2),
    ),
}


@pytest.mark.parametrize("kind", DROPPING)
def test_a_row_s_draws_do_not_mind_its_company(kind):
    net, shape = DROPPING[kind]
    rows = torch.randn(10, *shape, generator=torch.Generator().manual_seed(0))
    baseline = MCDropout(net, "logits")
    whole = baseline.predict(rows, draws=6).belief.mean
    order = torch.randperm(10, generator=torch.Generator().manual_seed(1))
    parts = [baseline.predict(part, draws=6).belief.mean for part in rows[order].split(3)]
    assert_close(torch.cat(parts, 1), whole[:, order])
    assert not torch.equal(whole[0], whole[1])


@pytest.mark.parametrize("kind", ["units", "channels", "alpha", "alpha by channels"])
def test_masks_have_the_mean_and_the_deviation_of_torch_s(kind):
    layer = DROPPING[kind][0][0]
    rows = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(0))
    own = MCDropout(nn.Sequential(layer, nn.Flatten()), "logits").predict(rows, draws=4000).belief.logits
    theirs = torch.stack([layer.train()(rows).flatten(1) for _ in range(4000)])
    standard_error = theirs.std(0) * (2 / 4000) ** 0.5
    assert ((own.mean(0) - theirs.mean(0)).abs() < 5 * standard_error).all()
    assert_close(own.std(0).float(), theirs.std(0), rtol=0.1, atol=0)


def test_the_mean_over_many_passes_is_the_expectation():
    """One input of 1 through dropout ½ and the identity: the logit is 0 or 2, half of the time each."""
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(1, 2, bias=False))
    net[1].weight.data = torch.tensor([[1.0], [0.0]])
    predictive = MCDropout(net, "logits").predict(torch.ones(1, 1), draws=4000, seed=0)
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
    with pytest.raises(InputError, match="0 draws or more"):
        MCDropout(mlp(3, 2, dropout=0.5), "logits").predict(INPUTS, draws="moments")
    with pytest.raises(ContextError, match="no context"):
        MCDropout(mlp(3, 2, dropout=0.5), "logits").predict(INPUTS, context=(INPUTS, LABELS))


LABELS = torch.arange(12) % 2


def nets(count):
    return [from_module(mlp(3, 2), "logits") for _ in range(count)]


def test_members_are_draws_and_their_variance_is_reducible():
    members = nets(4)
    predictive = Ensemble(members).predict(INPUTS)
    each = torch.stack([member.predict(INPUTS).probabilities for member in members])
    assert predictive.draws == 4
    assert_close(predictive.probabilities, each.mean(0))
    terms = predictive.decompose()
    assert_close(terms.reducible, each.var(0))
    of_the_mean = each.var(0) / 4
    assert_close(sum(terms), predictive.probabilities * (1 - predictive.probabilities) + of_the_mean)


def test_evidential_members_keep_their_evidence():
    members = [models.edl(mlp(3, 2), num_classes=2) for _ in range(3)]
    predictive = Ensemble(members).predict(INPUTS)
    assert predictive.decompose().irreducible.min() > 0
    assert torch.isfinite(predictive.concentration).all()


def test_members_that_draw_bring_all_their_draws():
    members = [models.bnn(mlp(3, 2), num_classes=2) for _ in range(2)]
    assert Ensemble(members).predict(INPUTS, draws=5).draws == 10


def test_an_ensemble_of_one_is_its_member():
    (member,) = nets(1)
    assert_close(Ensemble([member]).predict(INPUTS).probabilities, member.predict(INPUTS).probabilities)


def test_members_that_cannot_be_averaged_are_refused():
    with pytest.raises(InputError, match="at least one"):
        Ensemble([])
    with pytest.raises(InputError, match="one kind of belief"):
        Ensemble([*nets(1), models.edl(mlp(3, 2), num_classes=2)]).predict(INPUTS)
    with pytest.raises(InputError, match="one shape"):
        Ensemble([*nets(1), models.bnn(mlp(3, 2), num_classes=2)]).predict(INPUTS)
