"""Skeleton of a new model: copy it to src/totalcal/models/, rename it, change its parts.

EBNN, an evidential Bayesian neural net: a complete Bayesian model (section 4) without memory.
π ✓  Z ✗  M ✗  r ✗  no context at test; weights have a distribution.
"""

import torch
from torch import Tensor, nn

from totalcal.models.process import TuringProcess
from totalcal.origin import stamped
from totalcal.parts.heads import EmbeddingEvidence, EvidentialHead
from totalcal.parts.latents import NoLatent
from totalcal.parts.weights import Layers, mean_field
from totalcal.types import LossWeights


class UniformPrior(nn.Module):
    """p(π) = Dir(1, …, 1) whatever the readout: a prior map gives log-concentrations."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes

    def forward(self, readout: Tensor) -> Tensor:
        return torch.zeros(*readout.shape[:-1], self.num_classes).to(readout)


@stamped
def ebnn(
    backbone: nn.Module,
    num_classes: int,
    *,
    layers: Layers = "linear",
    local_kl_scale: float = 1e-3,
    weight_kl_scale: float = 0.1,
) -> TuringProcess:
    """Mean-field weights under a Dirichlet with a uniform prior."""
    return TuringProcess(
        backbone=mean_field(backbone, layers),
        latent=NoLatent(),
        head=EvidentialHead(EmbeddingEvidence(), prior_map=UniformPrior(num_classes)),
        num_classes=num_classes,
        loss_weights=LossWeights(local=local_kl_scale, weights=weight_kl_scale),
    )
