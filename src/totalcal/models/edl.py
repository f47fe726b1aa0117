"""EDL: evidential deep learning (section 6, Sensoy et al. 2018).  π ✓  Z ✗  M ✗  r ✗  no context at test."""

from torch import nn

from totalcal.models.process import TuringProcess
from totalcal.origin import stamped
from totalcal.parts.heads import Evidence, SquaredErrorHead
from totalcal.parts.latents import NoLatent
from totalcal.types import LossWeights


@stamped
def edl(
    backbone: nn.Module,
    num_classes: int,
    *,
    evidence: Evidence = "exp",
    local_kl_scale: float = 0.1,
    local_ramp: int = 10,
) -> TuringProcess:
    """Evidential deep learning: a Dirichlet for each input, fitted by the expected squared error.

    The KL from Dir(1) counts λ_t = `local_kl_scale` · min(1, t / `local_ramp`) with epochs t from 0. Sensoy's
    own schedule is `evidence="softplus"` (or `"relu"`) with `local_kl_scale=1`. The default is the one that
    the paper's authors ran; it fits better.

    Args:
        backbone: As for every model.
        num_classes: As for every model.
        evidence: From logits to evidence: "exp", "softplus" or "relu".
        local_kl_scale: How much the KL from Dir(1) counts at last.
        local_ramp: In how many epochs it gets there.

    Returns:
        The untrained model: hand it to `totalcal.fit` or `totalcal.train`.

    Raises:
        InputError: If `num_classes` is below 2.
        UnknownNameError: If there is no such evidence.

    Example:
        >>> import torch, totalcal
        >>> model = totalcal.edl(torch.nn.Linear(4, 3), num_classes=3)
        >>> model.predict(torch.zeros(2, 4)).probabilities.shape
        torch.Size([2, 3])
    """
    return TuringProcess(
        backbone=backbone,
        latent=NoLatent(),
        head=SquaredErrorHead(evidence),
        num_classes=num_classes,
        loss_weights=LossWeights(local=local_kl_scale, local_ramp=local_ramp),
    )
