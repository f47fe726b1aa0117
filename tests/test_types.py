"""Beliefs that fade, and predictions that know how familiar their inputs are."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from totalcal.errors import DomainError
from totalcal.types import (
    DETERMINISTIC,
    Belief,
    Dirichlet,
    Faded,
    Familiarity,
    PointMass,
    Predictive,
    WithLearned,
)
from totalcal.uncertainties import uncertainties_of

CLASSES, ROWS = 4, 3


def own_belief(kind: str) -> Belief:
    values = torch.randn(1, ROWS, CLASSES, generator=torch.Generator().manual_seed(0))
    return PointMass(2 * values) if kind == "point" else Dirichlet(1 + values)


def weights() -> Tensor:
    return torch.tensor([0.9, 0.4, 0.01], dtype=torch.float64)


def drawn(belief: Belief, row: int, weight: float, draws: int = 400_000) -> np.ndarray:
    """π from the mixture, by simulation."""
    random = np.random.default_rng(row)
    if isinstance(belief, PointMass):
        own = np.repeat(belief.mean[0, row].numpy()[None], draws, axis=0)
    else:
        assert isinstance(belief, Dirichlet)
        own = random.dirichlet(belief.log_concentration[0, row].double().exp().numpy(), draws)
    unknown = random.dirichlet(np.ones(CLASSES), draws)
    return np.where(random.random((draws, 1)) < weight, own, unknown)


@pytest.mark.parametrize("kind", ["point", "Dirichlet"])
def test_every_member_of_a_faded_belief_is_that_of_the_mixture(kind: str) -> None:
    belief = own_belief(kind)
    faded = Faded(belief, weights())
    labels = torch.tensor([0, 2, 3])
    for row, weight in enumerate(weights().tolist()):
        pi = drawn(belief, row, weight)
        np.testing.assert_allclose(faded.mean[0, row], pi.mean(0), atol=2e-3)
        np.testing.assert_allclose(faded.variance[0, row], pi.var(0), atol=1e-3)
        entropy = stats.entropy(pi, axis=1).mean()
        assert faded.expected_entropy()[0, row].item() == pytest.approx(entropy, abs=3e-3)
        nll = -np.log(pi[:, labels[row]]).mean()
        own = belief.expected_nll(labels.expand(1, -1)) if kind != "point" else None
        if own is not None:
            assert faded.expected_nll(labels.expand(1, -1))[0, row].item() == pytest.approx(nll, abs=1e-2)


def test_the_log_of_the_mean_is_exact_where_the_own_belief_is_sure() -> None:
    sure = PointMass(torch.tensor([[[800.0, 0.0, 0.0]]]))
    faded = Faded(sure, torch.tensor([1.0 - 1e-12], dtype=torch.float64))
    expected = [0.0, np.log(1e-12 / 3), np.log(1e-12 / 3)]
    np.testing.assert_allclose(faded.log_mean[0, 0], expected, rtol=1e-4, atol=1e-10)
    torch.testing.assert_close(faded.log_mean.exp(), faded.mean)


def test_a_belief_that_fades_not_at_all_is_the_own_one() -> None:
    own = own_belief("Dirichlet")
    faded = Faded(own, torch.ones(ROWS, dtype=torch.float64))
    for member in ("mean", "log_mean", "variance", "concentration"):
        torch.testing.assert_close(getattr(faded, member), getattr(own, member).double())


def test_concentration_goes_to_that_of_knowing_nothing() -> None:
    faded = Faded(own_belief("Dirichlet"), torch.zeros(ROWS, dtype=torch.float64))
    assert faded.concentration[0].tolist() == [CLASSES] * ROWS
    assert Faded(own_belief("point"), weights()).concentration.isinf().all()


def test_what_fades_goes_to_the_irreducible_term_and_the_three_still_add_up() -> None:
    own = own_belief("point")
    terms = Predictive(Faded(own, weights())).decompose()
    p = Predictive(Faded(own, weights())).probabilities
    torch.testing.assert_close(terms.reducible + terms.irreducible + terms.data, p * (1 - p))
    assert (terms.reducible == 0).all()
    summed = terms.summed().irreducible
    assert summed[2] > summed[0] > 0
    assert (Predictive(own).decompose().irreducible == 0).all()


def test_faded_beliefs_of_batches_join_in_order() -> None:
    own, g = torch.randn(2, 6, CLASSES), torch.rand(6, dtype=torch.float64)
    parts = [Faded(Dirichlet(own[:, some]), g[some]) for some in (slice(0, 4), slice(4, 6))]
    torch.testing.assert_close(Faded.joined(parts).variance, Faded(Dirichlet(own), g).variance)


def prediction(rows: slice, known: bool = True) -> Predictive:
    p, t = torch.linspace(0.1, 1, 6)[rows], torch.arange(6.0)[rows]
    domain = Familiarity(p, t, p / 2, p / 3, t / 2, t / 3) if known else None
    return Predictive(PointMass(torch.zeros(1, 6, 2)[:, rows]), domain=domain)


def test_familiarity_joins_in_order() -> None:
    joined = Predictive.joined([prediction(slice(0, 2)), prediction(slice(2, 6))])
    assert torch.equal(joined.familiarity, torch.linspace(0.1, 1, 6))
    assert torch.equal(joined.unfamiliarity, torch.arange(6.0))
    assert torch.equal(joined.unlike_domain, torch.linspace(0.1, 1, 6) / 2)
    assert torch.equal(joined.unlike_classes, torch.linspace(0.1, 1, 6) / 3)


def test_without_a_memory_there_is_none_and_the_error_says_what_to_do() -> None:
    for unknown in (
        prediction(slice(0, 2), known=False),
        Predictive.joined([prediction(slice(0, 2)), prediction(slice(2, 6), known=False)]),
    ):
        with pytest.raises(DomainError, match=r"totalcal\.remember"):
            _ = unknown.familiarity


def learned_belief(own: Belief) -> tuple[WithLearned, torch.Tensor]:
    q = torch.rand(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 3
    return WithLearned(own, q), q


OWN: dict[str, PointMass | Dirichlet] = {
    "point": PointMass(torch.randn(2, 6, CLASSES, generator=torch.Generator().manual_seed(1)).double()),
    "dirichlet": Dirichlet(torch.randn(2, 6, CLASSES, generator=torch.Generator().manual_seed(2)).double()),
}


@pytest.mark.parametrize("kind", OWN)
def test_a_belief_with_learned_classes_is_that_of_its_samples(kind: str) -> None:
    """π = ((1 − q_N) π_own, q): means, variances, entropy and NLL by drawing π many times."""
    own = OWN[kind]
    belief, q = learned_belief(own)
    rest = 1 - q.sum(-1, keepdim=True)
    if isinstance(own, PointMass):
        drawn = own.mean.expand(1, 2, 6, CLASSES)
    else:
        torch.manual_seed(0)
        drawn = torch.distributions.Dirichlet(own.log_concentration.exp()).sample((40_000,))
    pi = torch.cat([rest * drawn, q.expand(*drawn.shape[:-1], 2)], -1)
    torch.testing.assert_close(belief.mean, pi.mean(0), rtol=0.02, atol=0.005)
    torch.testing.assert_close(belief.log_mean.exp(), belief.mean)
    torch.testing.assert_close(belief.mean.sum(-1), torch.ones(2, 6, dtype=torch.float64))
    torch.testing.assert_close(belief.variance, pi.var(0, unbiased=False), rtol=0.05, atol=1e-3)
    torch.testing.assert_close(
        belief.expected_entropy(), torch.special.entr(pi).sum(-1).mean(0), rtol=0.02, atol=2e-3
    )
    labels = torch.tensor([0, 1, CLASSES - 1, CLASSES, CLASSES + 1, 0])
    nll = -pi[:, 0, torch.arange(6), labels].clamp_min(1e-300).log().mean(0)
    first = PointMass(own.logits[0]) if isinstance(own, PointMass) else Dirichlet(own.log_concentration[0])
    one = learned_belief(first)[0]
    torch.testing.assert_close(one.expected_nll(labels).double(), nll, rtol=0.03, atol=0.02)


def test_terms_of_a_belief_with_learned_classes_add_up() -> None:
    belief, _ = learned_belief(OWN["dirichlet"])
    found = Predictive(belief, DETERMINISTIC)
    terms, p = found.decompose(), found.probabilities
    assert terms.reducible.shape == (6, CLASSES + 2)
    assert (found.mutual_information >= 0).all()
    only = Predictive(learned_belief(Dirichlet(OWN["dirichlet"].log_concentration[:1]))[0], DETERMINISTIC)
    terms, p = only.decompose(), only.probabilities
    torch.testing.assert_close(terms.reducible + terms.irreducible + terms.data, p * (1 - p))


@pytest.mark.parametrize("kind", ["point", "Dirichlet"])
def test_what_has_faded_entirely_is_known_in_every_score(kind: str) -> None:
    belief = Faded(own_belief(kind), torch.tensor([0.0, 0.5, 0.0], dtype=torch.float64))
    assert belief.concentration[0, [0, 2]].tolist() == [CLASSES, CLASSES]
    scores = uncertainties_of(Predictive(belief))
    assert not any(values.isnan().any() for values in scores.values())


def test_an_impossible_label_of_a_faded_belief_has_a_finite_cost() -> None:
    own = PointMass(torch.tensor([[0.0, -torch.inf]]))
    assert Faded(own, torch.zeros(1)).expected_nll(torch.tensor([1])).tolist() == [1.0]
