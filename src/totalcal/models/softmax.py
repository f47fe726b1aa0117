"""softmax: the plain net.  π ✗  Z ✗  M ✗  r ✗  no context at test."""

from torch import nn

from totalcal.models.process import TuringProcess
from totalcal.origin import stamped
from totalcal.parts.heads import EmbeddingEvidence, PointHead
from totalcal.parts.latents import NoLatent
from totalcal.types import LossWeights


@stamped
def softmax(backbone: nn.Module, num_classes: int) -> TuringProcess:
    """A plain net: cross-entropy on the backbone's logits.

    Args:
        backbone: As for every model.
        num_classes: As for every model.

    Returns:
        The untrained model: hand it to `totalcal.fit` or `totalcal.train`.

    Raises:
        InputError: If `num_classes` is below 2.

    Example:
        >>> import torch, totalcal
        >>> model = totalcal.softmax(torch.nn.Linear(4, 3), num_classes=3)
        >>> model.predict(torch.zeros(2, 4)).probabilities.shape
        torch.Size([2, 3])
    """
    return TuringProcess(
        backbone=backbone,
        latent=NoLatent(),
        head=PointHead(EmbeddingEvidence()),
        num_classes=num_classes,
        loss_weights=LossWeights(),
    )
