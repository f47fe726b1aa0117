"""Beliefs with learned classes, and predictions that know how familiar their inputs are."""

import pytest
import torch

from totalcal.errors import DomainError
from totalcal.types import (
    DETERMINISTIC,
    Belief,
    Dirichlet,
    Familiarity,
    PointMass,
    Predictive,
    WithLearned,
)

CLASSES, ROWS = 4, 3


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
