"""A trained net becomes a process that begins with the net's own predictions."""

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from totalcal.models import model_named
from totalcal.origin import origin_of, stamp
from totalcal.parts.evidence import LinearEvidence
from totalcal.process import TuringProcess

_DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType({"etp": {"layers": "none", "local_kl": 0.0}})


class ScaledEvidence(nn.Module):
    """h(v, a) = s v + W a / width, which starts as v: s = 1, W = 0.

    One number scales the logits, as a temperature does: a whole matrix would have to be learned from the few
    rows that the net has not seen, and makes more mistakes than it came with. The mean over the readout's
    columns, not their sum, lets the scale find its place before the readout has much say.
    """

    def __init__(self, num_classes: int, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.readout_weight = nn.Parameter(torch.zeros(num_classes, width))

    def forward(self, embedding: Tensor, readout: Tensor) -> Tensor:
        return self.scale * embedding + F.linear(readout, self.readout_weight) / readout.shape[-1]


def wrap(net: nn.Module, model: str = "etp", *, num_classes: int, **arguments: Any) -> TuringProcess:
    """A model of the registry around a copy of a trained classifier that gives logits, one column a class.

    The evidence map starts as h(v, a) = v, so that the predictive mean starts as softmax(v), the net's own.
    (`edl` has no evidence map: it starts with the net's ranking of the classes, and milder.)  What is new,
    the memory, its keys and the evidence map, is then learned by `fit(…, freeze_backbone=True)` in seconds:
    on rows that the net was not trained on, because it is too sure of its own training rows.

    An ETP keeps the weights as points here, unless `layers` says which become laws around the trained values
    (such a net is trained whole), and has no KL between the beliefs over π unless `local_kl` says so: logits
    of a trained net are large, and that KL would scale them down beyond what the labels ask for.

    >>> net = nn.Linear(4, 3)
    >>> rows = torch.randn(5, 4)
    >>> torch.allclose(wrap(net, num_classes=3).predict(rows).probabilities.float(), net(rows).softmax(1))
    True
    """
    make = model_named(model)
    process = make(copy.deepcopy(net), num_classes, **{**_DEFAULTS.get(model, {}), **arguments})
    origin = origin_of(process)
    if isinstance(getattr(process.head, "evidence_map", None), LinearEvidence):
        process.head.evidence_map = ScaledEvidence(num_classes, process.latent.width)
    if origin is not None:
        stamp(process, "wrap", {"model": model, **origin.arguments}, net)
    return process.train(net.training)
