"""ANP: the attentive neural process (section 6, Kim et al. 2019).  π ✓  Z ✓  M ✓  r ✗  context at test.

Its M is the context itself, which it must carry along: `predict(…, context=…)` or `model.given(context)`.
"""

from torch import nn

from totalcal.origin import stamped
from totalcal.parts.evidence import LinearEvidence
from totalcal.parts.heads import EvidentialHead
from totalcal.parts.latents import TargetLatent
from totalcal.process import TuringProcess
from totalcal.types import ContextUse, KLScales


@stamped
def anp(
    backbone: nn.Module,
    num_classes: int,
    *,
    local_kl_scale: float = 1e-3,
    latent_kl_scale: float = 1e-3,
    width: int = 32,
) -> TuringProcess:
    """A latent for each target, from the context it attends to, in training and at test.

    The net is copied.
    """
    latent = TargetLatent(num_classes, 0.0, 1.0, ContextUse.REQUIRED, width=width)
    return TuringProcess(
        backbone=backbone,
        latent=latent,
        head=EvidentialHead(LinearEvidence(num_classes, latent.width), nn.Linear(latent.width, num_classes)),
        num_classes=num_classes,
        kl_scales=KLScales(local=local_kl_scale, latent=latent_kl_scale),
    )
