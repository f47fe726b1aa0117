"""The slot for π: how sure a model is of the class probabilities (section 7).

Evidence maps h(v, a) lead from an embedding and a readout to logits or log-concentrations; a map is any
module of (embedding, readout), and both have the same leading axes. Heads turn those into beliefs.
"""

from abc import ABC, abstractmethod
from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from totalcal.errors import ShapeError, UnknownNameError
from totalcal.functional import dirichlet
from totalcal.types import Belief, Dirichlet, PointMass


class EmbeddingEvidence(nn.Module):
    """h(v, a) = v: the backbone's output as it is."""

    def forward(self, embedding: Tensor, readout: Tensor) -> Tensor:
        return embedding


class LinearEvidence(nn.Module):
    """h(v, a) = W [v, a] + b."""

    def __init__(self, num_classes: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_classes + width, num_classes)

    @classmethod
    def from_embedding(cls, num_classes: int, width: int) -> Self:
        """W begins with the identity for v, and b with 0: the evidence is the net's, and a adds a little.

        Begun at random, W first has to learn which column of v stands for which class: with few rows, and so
        few steps, a model is left too mild.
        """
        evidence = cls(num_classes, width)
        evidence.linear.weight.detach()[:, :num_classes].zero_().fill_diagonal_(1)
        nn.init.zeros_(evidence.linear.bias)
        return evidence

    def forward(self, embedding: Tensor, readout: Tensor) -> Tensor:
        evidence: Tensor = self.linear(torch.cat([embedding, readout], -1))
        return evidence


class ResidualEvidence(nn.Module):
    """h(v, a) = v + tanh(a), as in the paper's toys (appendix B)."""

    def forward(self, embedding: Tensor, readout: Tensor) -> Tensor:
        if readout.shape[-1] != embedding.shape[-1]:
            raise ShapeError(
                f"residual evidence adds a readout of {readout.shape[-1]} columns to an embedding of "
                f"{embedding.shape[-1]}. Use it with a memory, or take LinearEvidence."
            )
        return embedding + readout.tanh()


EvidenceMap = Literal["from_embedding", "linear", "residual"]


def evidence_map_named(name: str, num_classes: int, width: int) -> nn.Module:
    """An evidence map by name, for a readout of that width."""
    match name:
        case "from_embedding":
            return LinearEvidence.from_embedding(num_classes, width)
        case "linear":
            return LinearEvidence(num_classes, width)
        case "residual":
            return ResidualEvidence()
    raise UnknownNameError("evidence map", name, get_args(EvidenceMap))


Evidence = Literal["exp", "softplus", "relu"]
_EXP_LIMIT = 10.0


class Head(nn.Module, ABC):
    """From an embedding and a readout to a belief over π. Abstract: subclasses are final."""

    @abstractmethod
    def belief(self, embedding: Tensor, readout: Tensor) -> Belief:
        """The posterior belief q(π | x, θ), which predicts; leading axes are free."""

    @abstractmethod
    def prior(self, embedding: Tensor, readout: Tensor) -> Belief:
        """The prior belief p(π | x, θ)."""

    @abstractmethod
    def loss(self, embedding: Tensor, readout: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Means over the batch of the expected NLL of the labels and of KL(q(π) ‖ p(π))."""


class PointHead(Head):
    """π is known given θ: softmax of the evidence."""

    def __init__(self, evidence_map: nn.Module) -> None:
        super().__init__()
        self.evidence_map = evidence_map

    def belief(self, embedding: Tensor, readout: Tensor) -> PointMass:
        return PointMass(self.evidence_map(embedding, readout))

    def prior(self, embedding: Tensor, readout: Tensor) -> PointMass:
        return self.belief(embedding, readout)

    def loss(self, embedding: Tensor, readout: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        nll = self.belief(embedding, readout).expected_nll(labels).mean()
        return nll, torch.zeros_like(nll)


class EvidentialHead(Head):
    """q(π) = Dir(exp h(v, a)), p(π) = Dir(exp of the prior map of the readout) (section 7)."""

    def __init__(self, evidence_map: nn.Module, prior_map: nn.Module) -> None:
        super().__init__()
        self.evidence_map, self.prior_map = evidence_map, prior_map

    def belief(self, embedding: Tensor, readout: Tensor) -> Dirichlet:
        return Dirichlet.clamped(self.evidence_map(embedding, readout))

    def prior(self, embedding: Tensor, readout: Tensor) -> Dirichlet:
        return Dirichlet.clamped(self.prior_map(readout))

    def loss(self, embedding: Tensor, readout: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        posterior, prior = self.belief(embedding, readout), self.prior(embedding, readout)
        nll, local_kl = dirichlet.free_energy(posterior.log_concentration, prior.log_concentration, labels)
        return nll.mean(), local_kl.mean()


class SquaredErrorHead(Head):
    """EDL: α = evidence(v) + 1, prior Dir(1), the loss of Sensoy et al. 2018 (appendix A.2).

    The expected squared error stands in the place of the expected NLL; the KL is that of the misleading
    evidence, α̃ = y + (1 − y) α, to the uniform distribution.
    """

    def __init__(self, evidence: Evidence = "exp") -> None:
        super().__init__()
        if evidence not in get_args(Evidence):
            raise UnknownNameError("evidence function", evidence, get_args(Evidence))
        self.evidence = evidence

    def belief(self, embedding: Tensor, readout: Tensor) -> Dirichlet:
        return Dirichlet.clamped(self._log_concentration(embedding))

    def prior(self, embedding: Tensor, readout: Tensor) -> Dirichlet:
        return Dirichlet(torch.zeros_like(embedding))

    def loss(self, embedding: Tensor, readout: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        log_alpha = self.belief(embedding, readout).log_concentration
        error = dirichlet.expected_squared_error(log_alpha, labels)
        misleading = log_alpha.scatter(-1, labels.unsqueeze(-1), 0.0)  # log α̃: 0 at the label
        return error.mean(), dirichlet.kl(misleading, torch.zeros_like(misleading)).mean()

    def _log_concentration(self, embedding: Tensor) -> Tensor:
        """log(1 + evidence(v))."""
        if self.evidence == "exp":  # log(1 + eᵛ) is softplus, stable where eᵛ is not
            return F.softplus(embedding.clamp(max=_EXP_LIMIT))
        if self.evidence == "softplus":
            return F.softplus(embedding).log1p()
        return F.relu(embedding).log1p()
