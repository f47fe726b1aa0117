"""ETP: the Evidential Turing Process (section 7).  π ✓  Z ✓  M ✓  r ✓  no context at test."""

import copy

from torch import nn

from totalcal.functional.cells import CellStart, UpdateRule, squared_noise, tanh_blend
from totalcal.origin import stamped
from totalcal.parts.evidence import LinearEvidence
from totalcal.parts.heads import EvidentialHead
from totalcal.parts.latents import ExternalMemory
from totalcal.parts.weights import Layers, WeightPrior, mean_field
from totalcal.process import TuringProcess
from totalcal.types import KLScales


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
    evidence_map: nn.Module | None = None,
    layers: Layers = "linear",
    weight_prior: WeightPrior | None = None,
    local_kl_scale: float = 1e-3,
    weight_kl_scale: float = 0.1,
) -> TuringProcess:
    """An external memory gives every input its own Dirichlet prior; `layers="none"` has point weights.

    `key_map` and `evidence_map` are linear if not given. They and the net are copied.
    """
    key_map, evidence_map = copy.deepcopy(key_map), copy.deepcopy(evidence_map)
    memory = ExternalMemory(
        num_cells, num_classes, cell_variance, retention, update_rule, key_map, cell_start=cell_start
    )
    evidence = LinearEvidence(num_classes, memory.width) if evidence_map is None else evidence_map
    return TuringProcess(
        backbone=mean_field(backbone, layers, weight_prior),
        latent=memory,
        head=EvidentialHead(evidence, prior_map=nn.Identity()),
        num_classes=num_classes,
        kl_scales=KLScales(local=local_kl_scale, weights=weight_kl_scale),
    )
