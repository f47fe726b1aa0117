"""BNN: the Bayesian neural net (section 6).  π ✗  Z ✗  M ✗  r ✗  no context; weights have a distribution."""

from torch import nn

from totalcal.models.process import TuringProcess
from totalcal.origin import stamped
from totalcal.parts.heads import EmbeddingEvidence, PointHead
from totalcal.parts.latents import NoLatent
from totalcal.parts.weights import Layers, WeightPrior, mean_field
from totalcal.types import LossWeights


@stamped
def bnn(
    backbone: nn.Module,
    num_classes: int,
    *,
    layers: Layers = "linear",
    weight_prior: WeightPrior | None = None,
    weight_kl_scale: float = 1.0,
) -> TuringProcess:
    """A Bayesian neural net: mean-field weights with cross-entropy; `weight_kl_scale` = 1 is the real bound.

    Args:
        backbone: As for every model.
        num_classes: As for every model.
        layers: As for every model with a distribution over its weights.
        weight_prior: Likewise.
        weight_kl_scale: Likewise.

    Returns:
        The untrained model: hand it to `totalcal.fit` or `totalcal.train`.

    Raises:
        InputError: If `num_classes` is below 2.

    Example:
        >>> import torch, totalcal
        >>> model = totalcal.bnn(torch.nn.Linear(4, 3), num_classes=3)
        >>> model.predict(torch.zeros(2, 4)).probabilities.shape
        torch.Size([2, 3])
    """
    return TuringProcess(
        backbone=mean_field(backbone, layers, weight_prior),
        latent=NoLatent(),
        head=PointHead(EmbeddingEvidence()),
        num_classes=num_classes,
        loss_weights=LossWeights(weights=weight_kl_scale),
    )
