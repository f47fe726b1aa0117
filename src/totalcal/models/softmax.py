"""softmax: the plain net.  π ✗  Z ✗  M ✗  r ✗  no context at test."""

from torch import nn

from totalcal.origin import stamped
from totalcal.parts.evidence import EmbeddingEvidence
from totalcal.parts.heads import PointHead
from totalcal.parts.latents import NoLatent
from totalcal.process import TuringProcess
from totalcal.types import KLScales


@stamped
def softmax(backbone: nn.Module, num_classes: int) -> TuringProcess:
    """Cross-entropy on the backbone's logits: the net one has before reading about uncertainty.

    The net is copied.
    """
    return TuringProcess(
        backbone=backbone,
        latent=NoLatent(),
        head=PointHead(EmbeddingEvidence()),
        num_classes=num_classes,
        kl_scales=KLScales(),
    )
