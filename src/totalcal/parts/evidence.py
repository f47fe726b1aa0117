"""Evidence maps h(v, a): from an embedding and a readout to logits or log-concentrations (section 7).

A map is any module of (embedding, readout); both have the same leading axes.
"""

import torch
from torch import Tensor, nn

from totalcal.errors import ShapeError


class EmbeddingEvidence(nn.Module):
    """h(v, a) = v: the backbone's output as it is."""

    def forward(self, embedding: Tensor, readout: Tensor) -> Tensor:
        return embedding


class LinearEvidence(nn.Module):
    """h(v, a) = W [v, a] + b."""

    def __init__(self, num_classes: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_classes + width, num_classes)

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
