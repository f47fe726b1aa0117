import pytest
import torch
from torch.testing import assert_close

from totalcal import models, registry
from totalcal.backbones import mlp
from totalcal.baselines import BASELINES, Ensemble, baseline_named
from totalcal.errors import InputError, UnknownNameError
from totalcal.scores import evaluate, from_module

INPUTS = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
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


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_is_built_from_a_way_to_train_nets(name):
    asked = []

    def train_net(member=0, dropout=0.0):
        asked.append((member, dropout))
        return mlp(3, 2, dropout=dropout)

    predictor = baseline_named(name)(train_net, (INPUTS, LABELS))
    assert evaluate(predictor, (INPUTS, LABELS), draws=3).draws == {"ensemble": 5, "mc_dropout": 3}.get(
        name, 1
    )
    assert asked == {"ensemble": [(m, 0.0) for m in range(5)], "mc_dropout": [(0, 0.2)]}.get(name, [(0, 0.0)])


def test_an_unknown_baseline_is_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'ensemble'"):
        baseline_named("ensembel")


def test_the_registry_names_every_baseline():
    assert tuple(BASELINES) == registry.BASELINES
