"""BNN: the Bayesian neural net (section 6).  π ✗  Z ✗  M ✗  r ✗  no context; weights have a distribution."""

from torch import nn

from totalcal.origin import stamped
from totalcal.parts.evidence import EmbeddingEvidence
from totalcal.parts.heads import PointHead
from totalcal.parts.latents import NoLatent
from totalcal.parts.weights import Layers, WeightPrior, mean_field
from totalcal.process import TuringProcess
from totalcal.types import KLScales


@stamped
def bnn(
    backbone: nn.Module,
    num_classes: int,
    *,
    layers: Layers = "linear",
    weight_prior: WeightPrior | None = None,
    weight_kl_scale: float = 1.0,
) -> TuringProcess:
    """Mean-field weights with cross-entropy; `weight_kl_scale` = 1 is the real bound.

    The net is copied.
    """
    return TuringProcess(
        backbone=mean_field(backbone, layers, weight_prior),
        latent=NoLatent(),
        head=PointHead(EmbeddingEvidence()),
        num_classes=num_classes,
        kl_scales=KLScales(weights=weight_kl_scale),
    )
