"""ENP: the evidential neural process (section 6).  π ✓  Z ✓  M ✗  r ✗  no context at test: Z ~ N(1, κ²I)."""

from torch import nn

from totalcal.models.process import TuringProcess
from totalcal.origin import stamped
from totalcal.parts.heads import EvidentialHead, LinearEvidence
from totalcal.parts.latents import TargetLatent
from totalcal.types import ContextUse, LossWeights


@stamped
def enp(
    backbone: nn.Module,
    num_classes: int,
    *,
    cell_variance: float = 0.1,
    local_kl_scale: float = 1e-3,
    latent_kl_scale: float = 1e-3,
    width: int = 32,
) -> TuringProcess:
    """An evidential neural process: like `anp` while training; at test its latents are from N(1, κ²I).

    Args:
        backbone: As for every model.
        num_classes: As for every model.
        cell_variance: κ², the variance of Z at test.
        local_kl_scale: As for every model with beliefs over π.
        latent_kl_scale: As for every neural process.
        width: Likewise.

    Returns:
        The untrained model: hand it to `totalcal.fit` or `totalcal.train`.

    Raises:
        InputError: If `num_classes` is below 2.

    Example:
        >>> import torch, totalcal
        >>> model = totalcal.enp(torch.nn.Linear(4, 3), num_classes=3)
        >>> model.predict(torch.zeros(2, 4)).probabilities.shape
        torch.Size([2, 3])
    """
    latent = TargetLatent(num_classes, 1.0, cell_variance, ContextUse.NONE, width=width)
    return TuringProcess(
        backbone=backbone,
        latent=latent,
        head=EvidentialHead(LinearEvidence(num_classes, latent.width), nn.Linear(latent.width, num_classes)),
        num_classes=num_classes,
        loss_weights=LossWeights(local=local_kl_scale, latent=latent_kl_scale),
    )
