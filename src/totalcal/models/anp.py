"""ANP: the attentive neural process (section 6, Kim et al. 2019).  π ✓  Z ✓  M ✓  r ✗  context at test.

Its M is the context itself, which it must carry along: `predict(…, context=…)` or `model.given(context)`.
"""

from torch import nn

from totalcal.models.process import TuringProcess
from totalcal.origin import stamped
from totalcal.parts.heads import EvidentialHead, LinearEvidence
from totalcal.parts.latents import TargetLatent
from totalcal.types import ContextUse, LossWeights


@stamped
def anp(
    backbone: nn.Module,
    num_classes: int,
    *,
    local_kl_scale: float = 1e-3,
    latent_kl_scale: float = 1e-3,
    width: int = 32,
) -> TuringProcess:
    """An attentive neural process: a latent for each target, from the context it attends to, also at test.

    Args:
        backbone: As for every model.
        num_classes: As for every model.
        local_kl_scale: As for every model with beliefs over π.
        latent_kl_scale: As for every neural process.
        width: Likewise.

    Returns:
        The untrained model: hand it to `totalcal.fit` or `totalcal.train`.

    Raises:
        InputError: If `num_classes` is below 2.

    Example:
        >>> import torch, totalcal
        >>> model = totalcal.anp(torch.nn.Linear(4, 3), num_classes=3)
        >>> context = totalcal.Batch(torch.randn(6, 4), torch.arange(6) % 3)
        >>> model.predict(torch.zeros(2, 4), context=context).probabilities.shape
        torch.Size([2, 3])
    """
    latent = TargetLatent(num_classes, 0.0, 1.0, ContextUse.REQUIRED, width=width)
    return TuringProcess(
        backbone=backbone,
        latent=latent,
        head=EvidentialHead(LinearEvidence(num_classes, latent.width), nn.Linear(latent.width, num_classes)),
        num_classes=num_classes,
        loss_weights=LossWeights(local=local_kl_scale, latent=latent_kl_scale),
    )
