"""ETP: the Evidential Turing Process (section 7).  π ✓  Z ✓  M ✓  r ✓  no context at test."""

import copy

from torch import nn

from totalcal.functional.cells import CellStart, UpdateRule, squared_noise, tanh_blend
from totalcal.models.process import TuringProcess
from totalcal.origin import stamped
from totalcal.parts.heads import EvidenceMap, EvidentialHead, evidence_map_named
from totalcal.parts.latents import ExternalMemory
from totalcal.parts.weights import Layers, WeightPrior, mean_field
from totalcal.types import LossWeights


@stamped
def etp(
    backbone: nn.Module,
    num_classes: int,
    *,
    num_cells: int = 20,
    retention: float = 0.99,
    cell_variance: float = 0.1,
    update_rule: UpdateRule = tanh_blend,
    cell_start: CellStart = squared_noise,
    key_map: nn.Module | None = None,
    evidence_map: nn.Module | EvidenceMap = "from_embedding",
    layers: Layers = "linear",
    weight_prior: WeightPrior | None = None,
    local_kl_scale: float = 1e-3,
    weight_kl_scale: float = 0.1,
) -> TuringProcess:
    """The Evidential Turing Process: an external memory gives every input its own Dirichlet prior.

    With `layers="none"` its weights are points.

    Args:
        backbone: As for every model.
        num_classes: As for every model.
        num_cells: R, the cells of the memory.
        retention: γ, how much of a cell stays at a write.
        cell_variance: κ², the variance of a drawn cell around its mean.
        update_rule: r; `totalcal.functional.cells` has others.
        cell_start: Where the cells begin.
        key_map: k_ψ, from cells to keys; linear if not given. It is copied.
        evidence_map: h(v, a), from embedding and readout to log-concentrations: a linear map that begins as
            h = v ("from_embedding") or at random, as in the authors' program ("linear"); v + tanh(a), as in
            the paper's toys ("residual"); or a module, which is copied.
        layers: As for every model with a distribution over its weights.
        weight_prior: Likewise.
        local_kl_scale: As for every model with beliefs over π.
        weight_kl_scale: Likewise.

    Returns:
        The untrained model: hand it to `totalcal.fit` or `totalcal.train`.

    Raises:
        InputError: If `num_classes` is below 2.
        UnknownNameError: If there is no evidence map of that name.

    Example:
        >>> import torch, totalcal
        >>> model = totalcal.etp(torch.nn.Linear(4, 3), num_classes=3, num_cells=10)
        >>> model.predict(torch.zeros(2, 4)).probabilities.shape
        torch.Size([2, 3])
    """
    key_map = copy.deepcopy(key_map)
    memory = ExternalMemory(
        num_cells, num_classes, cell_variance, retention, update_rule, key_map, cell_start=cell_start
    )
    evidence = (
        copy.deepcopy(evidence_map)
        if isinstance(evidence_map, nn.Module)
        else evidence_map_named(evidence_map, num_classes, memory.width)
    )
    return TuringProcess(
        backbone=mean_field(backbone, layers, weight_prior),
        latent=memory,
        head=EvidentialHead(evidence, prior_map=nn.Identity()),
        num_classes=num_classes,
        loss_weights=LossWeights(local=local_kl_scale, weights=weight_kl_scale),
    )
