"""A trained net becomes a process that begins with the net's own predictions."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from totalcal.errors import InputError
from totalcal.models import model_named
from totalcal.models.process import TuringProcess
from totalcal.origin import origin_of, stamp
from totalcal.parts.heads import LinearEvidence
from totalcal.parts.sampling import move_like, stochastic_layers
from totalcal.scores.fit import nll
from totalcal.training.fit import behind_backbone, embedded, fit
from totalcal.training.options import Optimisation
from totalcal.training.sources import Data, as_source

_DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType({"etp": {"layers": "none"}})

CLASSES_OF_THE_SCALES = 10
"""The KL between beliefs grows with the number of classes: its scale was chosen with ten."""

JUDGING = 5
"""Every fifth row is kept apart to judge what the others taught."""

_NOTHING = -30.0  # log counts of a prior that has no say


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

    @torch.no_grad()
    def become_temperature(self, temperature: float) -> None:
        """softmax(v / T) and nothing else: the prior has no counts."""
        self.strength.fill_(10.0)
        self.scale.fill_(1 / temperature)
        self.bias.fill_(_NOTHING)
        self.readout_weight.zero_()


def wrap(net: nn.Module, model: str = "etp", *, num_classes: int, **arguments: Any) -> TuringProcess:
    """A model of the registry around a copy of a trained classifier that gives logits, one column per class.

    It starts with the net's answers, and its probabilities to within 5·10⁻⁴ (`CountingEvidence`).
    (`edl` has no evidence map: it starts with the net's ranking of the classes, and milder.)  What is new,
    the memory, its keys and the evidence map, is then learned by `fit_wrapped` in seconds, no worse than a
    temperature, or by `fit(…, freeze_backbone=True)`: on rows that the net was not trained on, because it is
    too sure of its own training rows. The KL between beliefs counts less the more classes there are.

    An ETP keeps point weights here, unless `layers` says which get a distribution around the trained values:
    such a net is trained whole.

    Args:
        net: The trained classifier; it is copied.
        model: A name of `totalcal.MODELS`.
        num_classes: The columns of the net's output.
        arguments: What goes to the model's factory.

    Returns:
        The model, in the mode of the net.

    Raises:
        UnknownNameError: If there is no such model.
        InputError: If `num_classes` is below 2.

    Example:
        >>> net = nn.Linear(4, 3)
        >>> rows = torch.randn(5, 4)
        >>> found = wrap(net, num_classes=3).predict(rows).probabilities.float()
        >>> torch.allclose(found, net(rows).softmax(1), atol=5e-4)
        True
    """
    make = model_named(model)
    chosen = {**_DEFAULTS.get(model, {}), **_scaled_kl(make, num_classes), **arguments}
    process = make(net, num_classes, **chosen)
    origin = origin_of(process)
    if isinstance(getattr(process.head, "evidence_map", None), LinearEvidence):
        process.head.evidence_map = CountingEvidence(num_classes, process.latent.width)
        move_like(process.backbone, process.head)
    if origin is not None:
        stamp(process, "wrap", {"model": model, **origin.arguments}, net)
    return process.train(net.training)


@dataclass(frozen=True)
class CalibrationResult:
    """What a wrapped net has learned, judged on rows kept apart; `str` says it in words."""

    rows: int
    wrapped_nll: float
    temperature: float
    temperature_nll: float

    @property
    def is_temperature(self) -> bool:
        """Whether the temperature was better, so that it is what the model gives now."""
        return not self.wrapped_nll <= self.temperature_nll

    def __str__(self) -> str:
        found = (
            f"on {self.rows} rows kept apart the wrapped net has an NLL of {self.wrapped_nll:.4f} and a "
            f"temperature of {self.temperature:.3f} one of {self.temperature_nll:.4f}"
        )
        kept = "so the temperature is what you get" if self.is_temperature else "so what it learned is kept"
        return f"{found}, {kept}"


def fit_wrapped(
    model: TuringProcess,
    held_out: Data,
    *,
    epochs: int = 30,
    batch_size: int = 64,
    learning_rate: float = 1e-2,
    seed: int = 0,
    progress: bool | None = None,
) -> CalibrationResult:
    """Train the new parts of a wrapped net; a plain temperature replaces them if its NLL is lower.

    Four of five rows teach, from the temperature that suits them best on, and the fifth judges: where the NLL
    there is above the temperature's, the model becomes the net with its temperature.

    Args:
        model: What `wrap` gave, with point weights; it is changed in place.
        held_out: Rows that the net was not trained on, with labels, as `fit` takes them.
        epochs: How often the rows are seen.
        batch_size: Rows per gradient step.
        learning_rate: Of Adam.
        seed: Everything random is a function of it.
        progress: Whether to show a bar; on a terminal, unless given.

    Returns:
        Both NLLs on the rows kept apart, and in words which of the two the model is.

    Raises:
        InputError: If the model has no evidence map of `wrap`, or there are fewer than ten rows.

    Example:
        >>> net, rows = nn.Linear(4, 3), torch.randn(50, 4)
        >>> model = wrap(net, num_classes=3)
        >>> taught = fit_wrapped(model, (rows, net(rows).argmax(1)), epochs=1, progress=False)
        >>> taught.rows
        10
    """
    evidence = getattr(model.head, "evidence_map", None)
    if not isinstance(evidence, CountingEvidence):
        raise InputError(
            "only a model made by `wrap` with an evidence map, such as etp, can become a temperature."
        )
    if stochastic_layers(model.backbone):
        raise InputError('a temperature is for a net of point weights. Wrap it with layers="none".')
    head = behind_backbone(model)
    data = embedded(model, as_source(held_out), next(model.parameters()).device)
    if len(data) < 2 * JUDGING:
        raise InputError(f"at least {2 * JUDGING} held-out rows are needed, but got {len(data)}.")
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    judging = torch.arange(len(data)) % JUDGING == 0
    (teaching, known), (judged, truth) = (
        (data.inputs[order[rows]], data.labels[order[rows]]) for rows in (~judging, judging)
    )
    temperature = _temperature(teaching, known)
    with torch.no_grad():
        evidence.scale.fill_(1 / temperature)
    fit(
        head,
        (teaching, known),
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        optimisation=Optimisation(learning_rate=learning_rate),
        progress=progress,
    )
    found = CalibrationResult(
        rows=len(truth),
        wrapped_nll=nll(head.predict(judged).probabilities.cpu(), truth),
        temperature=temperature,
        temperature_nll=float(F.cross_entropy(judged.double() / temperature, truth)),
    )
    if found.is_temperature:
        evidence.become_temperature(temperature)
    model.eval()
    return found


def _scaled_kl(make: Any, num_classes: int) -> dict[str, float]:
    given = inspect.signature(make).parameters.get("local_kl_scale")
    share = min(1.0, CLASSES_OF_THE_SCALES / num_classes)
    return {} if given is None else {"local_kl_scale": given.default * share}


def _temperature(logits: Tensor, labels: Tensor) -> float:
    """T with the least NLL, between 0.05 and 20."""
    from scipy.optimize import minimize_scalar

    def cost(log_temperature: float) -> float:
        return float(F.cross_entropy(logits.double() / math.exp(log_temperature), labels))

    return math.exp(float(minimize_scalar(cost, bounds=(-3.0, 3.0), method="bounded").x))
