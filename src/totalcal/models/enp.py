"""ENP: the evidential neural process (section 6).  π ✓  Z ✓  M ✗  r ✗  no context at test: Z ~ N(1, κ²I)."""

from torch import nn

from totalcal.origin import stamped
from totalcal.parts.evidence import LinearEvidence
from totalcal.parts.heads import EvidentialHead
from totalcal.parts.latents import TargetLatent
from totalcal.process import TuringProcess
from totalcal.types import ContextUse, KLScales


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
    """A latent for each target, from the context it attends to while training, from N(1, κ²I) at test.

    The net is copied.
    """
    latent = TargetLatent(num_classes, 1.0, cell_variance, ContextUse.NONE, width=width)
    return TuringProcess(
        backbone=backbone,
        latent=latent,
        head=EvidentialHead(LinearEvidence(num_classes, latent.width), nn.Linear(latent.width, num_classes)),
        num_classes=num_classes,
        kl_scales=KLScales(local=local_kl_scale, latent=latent_kl_scale),
    )
