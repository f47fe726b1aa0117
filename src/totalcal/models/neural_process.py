"""The neural process, NP (section 6, Garnelo et al. 2018).  π ✗  Z ✓  M ✗  r ✗  context at test if given."""

from torch import nn

from totalcal.models.process import TuringProcess
from totalcal.origin import stamped
from totalcal.parts.heads import LinearEvidence, PointHead
from totalcal.parts.latents import SetLatent
from totalcal.types import LossWeights


@stamped
def neural_process(
    backbone: nn.Module, num_classes: int, *, latent_kl_scale: float = 1.0, width: int = 32
) -> TuringProcess:
    """A neural process: one latent for a set, from the mean of its pairs; N(0, I) without a context.

    Args:
        backbone: As for every model.
        num_classes: As for every model.
        latent_kl_scale: As for every neural process.
        width: Likewise.

    Returns:
        The untrained model: hand it to `totalcal.fit` or `totalcal.train`.

    Raises:
        InputError: If `num_classes` is below 2.

    Example:
        >>> import torch, totalcal
        >>> model = totalcal.neural_process(torch.nn.Linear(4, 3), num_classes=3)
        >>> model.predict(torch.zeros(2, 4)).probabilities.shape
        torch.Size([2, 3])
    """
    latent = SetLatent(num_classes, width)
    return TuringProcess(
        backbone=backbone,
        latent=latent,
        head=PointHead(LinearEvidence(num_classes, latent.width)),
        num_classes=num_classes,
        loss_weights=LossWeights(latent=latent_kl_scale),
    )
