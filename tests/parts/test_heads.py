"""Heads against the appendix of the paper."""

import math

import pytest
import torch
from torch import nn

from totalcal.errors import ShapeError, UnknownNameError
from totalcal.functional import dirichlet
from totalcal.parts.heads import (
    EvidentialHead,
    LinearEvidence,
    ResidualEvidence,
    SquaredErrorHead,
    evidence_map_named,
)

NO_READOUT = torch.zeros(1, 0)


@pytest.mark.parametrize("evidence", ["exp", "softplus", "relu"])
def test_concentrations_are_evidence_plus_one(evidence: str) -> None:
    functions = {"exp": torch.exp, "softplus": nn.functional.softplus, "relu": torch.relu}
    embedding = torch.tensor([[-3.0, 0.5, 4.0]])
    alpha = SquaredErrorHead(evidence).belief(embedding, NO_READOUT).log_concentration.exp()
    torch.testing.assert_close(alpha, functions[evidence](embedding) + 1)


def test_the_loss_of_edl_is_the_negative_elbo_of_appendix_a3_up_to_a_constant() -> None:
    """ELBO = E_q[log N(y | π, ½ I)] − KL(q ‖ Dir(1)); the constant is (K/2) log π (the number)."""
    torch.manual_seed(0)
    embedding, label, classes = torch.randn(1, 3), torch.tensor([2]), 3
    head = SquaredErrorHead("softplus")
    log_alpha = head.belief(embedding, NO_READOUT).log_concentration
    q = torch.distributions.Dirichlet(log_alpha[0].double().exp())
    pi = q.sample(torch.Size([400_000]))
    onehot = nn.functional.one_hot(label, classes).double()
    likelihood = torch.distributions.Normal(pi, math.sqrt(0.5)).log_prob(onehot).sum(-1).mean()
    kl = torch.distributions.kl_divergence(q, torch.distributions.Dirichlet(torch.ones(classes).double()))
    error = dirichlet.expected_squared_error(log_alpha, label)[0]
    constant = classes / 2 * math.log(math.pi)
    negative_elbo = -(likelihood - kl)
    ours = error + dirichlet.kl(log_alpha, torch.zeros_like(log_alpha))[0] + constant
    torch.testing.assert_close(ours, negative_elbo, rtol=1e-3, atol=1e-3)


def test_edl_only_punishes_misleading_evidence() -> None:
    embedding = torch.tensor([[9.0, -20.0, -20.0]])
    _, right = SquaredErrorHead().loss(embedding, NO_READOUT, torch.tensor([0]))
    _, wrong = SquaredErrorHead().loss(embedding, NO_READOUT, torch.tensor([1]))
    assert right < 1e-3 < wrong


def test_an_evidential_loss_agrees_with_torch_distributions() -> None:
    torch.manual_seed(0)
    head = EvidentialHead(LinearEvidence(3, 3), prior_map=nn.Identity())
    embedding, readout, labels = torch.randn(4, 3), torch.randn(4, 3), torch.tensor([0, 1, 2, 1])
    _, local_kl = head.loss(embedding, readout, labels)
    posterior = torch.distributions.Dirichlet(
        head.belief(embedding, readout).log_concentration.double().exp()
    )
    prior = torch.distributions.Dirichlet(readout.double().exp())
    torch.testing.assert_close(local_kl, torch.distributions.kl_divergence(posterior, prior).mean())


def test_residual_evidence_is_the_embedding_plus_tanh_of_the_readout() -> None:
    embedding, readout = torch.randn(2, 3), torch.randn(2, 3)
    torch.testing.assert_close(ResidualEvidence()(embedding, readout), embedding + torch.tanh(readout))
    with pytest.raises(ShapeError, match="readout of 0 columns"):
        ResidualEvidence()(embedding, torch.zeros(2, 0))


def test_evidence_from_the_embedding_begins_as_the_embedding_and_learns_as_a_linear_map_does() -> None:
    embedding, readout = torch.randn(2, 3), torch.randn(2, 4)
    evidence = LinearEvidence.from_embedding(3, 4)
    torch.testing.assert_close(evidence(embedding, torch.zeros(2, 4)), embedding)
    added = readout @ evidence.linear.weight[:, 3:].T
    torch.testing.assert_close(evidence(embedding, readout), embedding + added)
    assert evidence.state_dict().keys() == LinearEvidence(3, 4).state_dict().keys()


def test_an_unknown_evidence_map_is_named() -> None:
    with pytest.raises(UnknownNameError, match="from_embedding"):
        evidence_map_named("from_embeding", 3, 3)


def test_an_unknown_evidence_function_is_named() -> None:
    with pytest.raises(UnknownNameError, match="softplus"):
        SquaredErrorHead("softpuls")
