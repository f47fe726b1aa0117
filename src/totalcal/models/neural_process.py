"""The neural process, NP (section 6, Garnelo et al. 2018).  π ✗  Z ✓  M ✗  r ✗  context at test if given."""

from torch import nn

from totalcal.origin import stamped
from totalcal.parts.evidence import LinearEvidence
from totalcal.parts.heads import PointHead
from totalcal.parts.latents import SetLatent
from totalcal.process import TuringProcess
from totalcal.types import KLScales


@stamped
def neural_process(
    backbone: nn.Module, num_classes: int, *, latent_kl_scale: float = 1.0, width: int = 32
) -> TuringProcess:
    """One latent for a set, from the mean of its encoded pairs; N(0, I) where no context is given.

    The net is copied.
    """
    latent = SetLatent(num_classes, width)
    return TuringProcess(
        backbone=backbone,
        latent=latent,
        head=PointHead(LinearEvidence(num_classes, latent.width)),
        num_classes=num_classes,
        kl_scales=KLScales(latent=latent_kl_scale),
    )
