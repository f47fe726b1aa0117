"""A trained net becomes a process that begins with the net's own predictions."""

import math
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

_DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType({"etp": {"layers": "none"}})


class CountingEvidence(nn.Module):
    """h(v, a) = log(eᶜ softmax(v)ˢ + exp(b + W a / width)): what the net counts, and a prior's counts.

    As a Dirichlet takes in observations: where the net has little to say, the prior that the memory gives has
    the say. s scales the net's log-probabilities, as a temperature does, and the prior spares it the few rows
    that the net is wrong about and sure of, which would make all others too mild. It starts with s = 1, W = 0
    and ten counts of the prior to e¹⁰ of the net: probabilities are within 5·10⁻⁴ of the net's own, and no
    answer changes. Logits as they are would bring a strength of their own, and large ones would leave the
    range in which a Dirichlet is computed.
    """

    def __init__(self, num_classes: int, width: int) -> None:
        super().__init__()
        self.strength = nn.Parameter(torch.tensor(10.0))
        self.scale = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.tensor(math.log(10 / num_classes)))
        self.readout_weight = nn.Parameter(torch.zeros(num_classes, width))

    def forward(self, embedding: Tensor, readout: Tensor) -> Tensor:
        net = self.strength + self.scale * embedding.log_softmax(-1)
        prior = self.bias + F.linear(readout, self.readout_weight) / readout.shape[-1]
        return torch.logaddexp(net, prior)


def wrap(net: nn.Module, model: str = "etp", *, num_classes: int, **arguments: Any) -> TuringProcess:
    """A model of the registry around a copy of a trained classifier that gives logits, one column a class.

    It starts with the net's answers, and its probabilities to within 5·10⁻⁴ (`CountingEvidence`).
    (`edl` has no evidence map: it starts with the net's ranking of the classes, and milder.)  What is new,
    the memory, its keys and the evidence map, is then learned by `fit(…, freeze_backbone=True)` in seconds:
    on rows that the net was not trained on, because it is too sure of its own training rows.

    An ETP keeps the weights as points here, unless `layers` says which become laws around the trained values:
    such a net is trained whole.

    >>> net = nn.Linear(4, 3)
    >>> rows = torch.randn(5, 4)
    >>> found = wrap(net, num_classes=3).predict(rows).probabilities.float()
    >>> torch.allclose(found, net(rows).softmax(1), atol=5e-4)
    True
    """
    make = model_named(model)
    process = make(net, num_classes, **{**_DEFAULTS.get(model, {}), **arguments})
    origin = origin_of(process)
    if isinstance(getattr(process.head, "evidence_map", None), LinearEvidence):
        process.head.evidence_map = CountingEvidence(num_classes, process.latent.width)
    if origin is not None:
        stamp(process, "wrap", {"model": model, **origin.arguments}, net)
    return process.train(net.training)
