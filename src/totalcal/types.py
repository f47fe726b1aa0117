"""What passes between rooms: batches, beliefs over π, the terms of the loss, predictions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from totalcal.errors import DomainError, GateError, InputError, MissingExtraError
from totalcal.functional import dirichlet
from totalcal.functional.decomposition import (
    Decomposition,
    categorical_entropy,
    decompose,
    softmax,
    sum_over_classes,
)
from totalcal.functional.gaussian import at_least_single

__all__ = [
    "BY_MOMENTS",
    "DETERMINISTIC",
    "Batch",
    "Belief",
    "ContextUse",
    "Decomposition",
    "Dirichlet",
    "Draws",
    "Faded",
    "Familiarity",
    "LossTerms",
    "LossWeights",
    "MemoryUpdate",
    "PointMass",
    "Predictive",
    "Predictor",
    "Sampling",
    "WithLearned",
]


Draws = int | Literal["auto", "moments"]
"""How many draws of θ, 0 for means; "moments" takes none, and lets fixed points stand for what is random.

"auto" is what was measured to be better of moments and ten draws; ten, until it is measured.
"""


class Batch(NamedTuple):
    """Inputs of any kind that `totalcal.inputs` knows, and their labels, row by row."""

    inputs: Any
    labels: Tensor


class ContextUse(Enum):
    """What a model does with a context at test: the last column of the paper's ablation table."""

    NONE = "takes no context"
    OPTIONAL = "takes a context if given"
    REQUIRED = "cannot predict without a context"


class Belief(Protocol):
    """A distribution over class probabilities π; leading axes (draws, batch) are free, last are classes."""

    @property
    def mean(self) -> Tensor:
        """E[π]."""

    @property
    def log_mean(self) -> Tensor:
        """log E[π], exact where a probability is close to 0."""

    @property
    def variance(self) -> Tensor:
        """Var[π], class by class."""

    @property
    def concentration(self) -> Tensor:
        """α₀: how much evidence there is; ∞ for a point mass."""

    def expected_nll(self, labels: Tensor) -> Tensor:
        """E[−log π_y], one number per input."""

    def expected_entropy(self) -> Tensor:
        """E[H(y | π)], one number per input."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The beliefs of several batches as one, in order."""


@dataclass(frozen=True)
class PointMass:
    """π is known: softmax(logits)."""

    logits: Tensor

    @cached_property
    def mean(self) -> Tensor:
        return softmax(self.logits)

    @property
    def log_mean(self) -> Tensor:
        return self.logits.double().log_softmax(-1)

    @property
    def variance(self) -> Tensor:
        return torch.zeros_like(self.logits, dtype=torch.float64)

    @property
    def concentration(self) -> Tensor:
        return self.logits.new_full(self.logits.shape[:-1], torch.inf)

    def expected_nll(self, labels: Tensor) -> Tensor:
        return F.cross_entropy(at_least_single(self.logits), labels, reduction="none")

    def expected_entropy(self) -> Tensor:
        return categorical_entropy(self.mean)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        return cls(torch.cat([part.logits for part in parts], dim=-2))


@dataclass(frozen=True)
class Dirichlet:
    """π ~ Dir(exp(log_concentration)); log-concentrations lie in [−15, 15]."""

    log_concentration: Tensor

    @classmethod
    def clamped(cls, log_concentration: Tensor) -> "Dirichlet":
        """The belief of a network's output, whatever it gives."""
        return cls(dirichlet.clamp(log_concentration))

    @cached_property
    def mean(self) -> Tensor:
        return dirichlet.mean(self.log_concentration)

    @property
    def log_mean(self) -> Tensor:
        return self.log_concentration.double().log_softmax(-1)

    @property
    def variance(self) -> Tensor:
        return dirichlet.variance(self.log_concentration)

    @property
    def concentration(self) -> Tensor:
        return sum_over_classes(self.log_concentration.double().exp())

    def expected_nll(self, labels: Tensor) -> Tensor:
        return dirichlet.expected_nll(self.log_concentration, labels)

    def expected_entropy(self) -> Tensor:
        return dirichlet.expected_entropy(self.log_concentration)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        return cls(torch.cat([part.log_concentration for part in parts], dim=-2))


@dataclass(frozen=True)
class Faded:
    """A mixture: the model's `own` belief with weight g, Dir(1) with 1 − g ("it knows nothing of this").

    `weight` is g, [batch]. All members are exact for any belief. The variance of the mixture is
    g u + (1 − g) u₁ + g (1 − g) (m − 1/K)² with u₁ that of Dir(1): what fades goes to the irreducible term.
    """

    own: Belief
    weight: Tensor

    @cached_property
    def mean(self) -> Tensor:
        mean, g = self.own.mean, self._by_class
        return g * mean + (1 - g) / mean.shape[-1]

    @property
    def log_mean(self) -> Tensor:
        own, g = self.own.log_mean, self._by_class
        return torch.logaddexp(g.log() + own, (-g).log1p() - math.log(own.shape[-1]))

    @property
    def variance(self) -> Tensor:
        mean, g = self.own.mean, self._by_class
        classes = mean.shape[-1]
        uniform = (1 - 1 / classes) / (classes * (classes + 1))
        return g * self.own.variance + (1 - g) * uniform + g * (1 - g) * (mean - 1 / classes).square()

    @property
    def concentration(self) -> Tensor:
        """The expected α₀: K counts where Dir(1) speaks."""
        own = (self.weight * self.own.concentration).where(self.weight > 0, 0.0)  # ∞ of a point mass
        return own + (1 - self.weight) * self._classes

    def expected_nll(self, labels: Tensor) -> Tensor:
        own = (self.weight * self.own.expected_nll(labels)).where(self.weight > 0, 0.0)
        return own + (1 - self.weight) * _harmonic(self._classes - 1)

    def expected_entropy(self) -> Tensor:
        unknown = _harmonic(self._classes) - 1
        return self.weight * self.own.expected_entropy() + (1 - self.weight) * unknown

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        own = type(parts[0].own).joined([part.own for part in parts])
        return cls(own, torch.cat([part.weight for part in parts]))

    @property
    def _by_class(self) -> Tensor:
        return self.weight.double().unsqueeze(-1)

    @property
    def _classes(self) -> int:
        return self.own.mean.shape[-1]


@dataclass(frozen=True)
class WithLearned:
    """The belief of a net about its own classes, with classes behind them that a memory has learned.

    `learned` is q, [batch, classes learned], what the memory says of each. With q_N their sum, the mean is (1
    − q_N) m on the net's classes and q on the others: the answers among the net's own are changed by one
    factor. Variances of the net's are (1 − q_N)² u, and there are none of q, which is known. The expected
    entropy is h₂(q_N) + (1 − q_N) E + q_N H(q / q_N).
    """

    own: Belief
    learned: Tensor

    @cached_property
    def mean(self) -> Tensor:
        own = self.own.mean
        return torch.cat([self._rest.exp()[..., None] * own, self._learned_like(own)], -1)

    @property
    def log_mean(self) -> Tensor:
        own = self.own.log_mean
        return torch.cat([self._rest[..., None] + own, self._learned_like(own).log()], -1)

    @property
    def variance(self) -> Tensor:
        own = self.own.variance.double()
        return torch.cat([(2 * self._rest).exp()[..., None] * own, 0 * self._learned_like(own)], -1)

    @property
    def concentration(self) -> Tensor:
        """How much evidence there is about the net's own classes."""
        return self.own.concentration

    def expected_nll(self, labels: Tensor) -> Tensor:
        known = self.own.mean.shape[-1]
        own = self.own.expected_nll(labels.clamp_max(known - 1)) - self._rest
        rows = torch.arange(len(labels), device=labels.device)
        learned = -self.learned.double().log()[rows, (labels - known).clamp_min(0)]
        return torch.where(labels < known, own, learned)

    def expected_entropy(self) -> Tensor:
        everything = torch.cat([self._rest.exp()[..., None], self.learned.double()], -1)
        return categorical_entropy(everything) + self._rest.exp() * self.own.expected_entropy()

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        own = type(parts[0].own).joined([part.own for part in parts])
        return cls(own, torch.cat([part.learned for part in parts]))

    @cached_property
    def _rest(self) -> Tensor:
        """log(1 − q_N), [batch]."""
        return (-self.learned.double().sum(-1)).clamp_min(-1).log1p().clamp_min(_LEAST_LOG)

    def _learned_like(self, own: Tensor) -> Tensor:
        return self.learned.double().expand(*own.shape[:-1], -1)


_LEAST_LOG = -700.0  # where a float64 still is more than 0


def _harmonic(count: int) -> float:
    """1 + 1/2 + … + 1/count = ψ(count + 1) − ψ(1)."""
    return math.fsum(1 / k for k in range(1, count + 1))


class LossWeights(NamedTuple):
    """How much each KL of the free energy counts; the paper's bound has all of them at 1.

    `local` may grow from 0: linearly over the first `local_ramp` epochs, as EDL's λ_t does.
    """

    local: float = 1e-3
    latent: float = 1.0
    weights: float = 1.0
    local_ramp: int = 0

    def local_at(self, epoch: int | None) -> float:
        """The local scale in an epoch, counted from 0; None is the end of the schedule.

        >>> LossWeights(local=0.1, local_ramp=10).local_at(5)
        0.05
        """
        if epoch is None or epoch >= self.local_ramp:
            return self.local
        return self.local * epoch / self.local_ramp


class LossTerms(NamedTuple):
    """The free energy in parts: three means over a batch, and the weights' KL of the whole net in nats."""

    expected_nll: Tensor
    local_kl: Tensor
    latent_kl: Tensor
    weight_kl: Tensor
    scales: LossWeights

    def total(self, examples: int, epoch: int | None = None) -> Tensor:
        """F(λ) per example, section 5: the loss to minimise on a training set of so many `examples`."""
        return (
            self.expected_nll
            + self.scales.local_at(epoch) * self.local_kl
            + self.scales.latent * self.latent_kl
            + self.scales.weights * self.weight_kl / examples
        )


class MemoryUpdate(NamedTuple):
    """How far a write moved each memory cell (Euclidean); empty for a model without memory."""

    distances: Tensor

    @property
    def largest(self) -> Tensor:
        return self.distances.max() if self.distances.numel() else self.distances.new_zeros(())

    @property
    def mean(self) -> Tensor:
        return self.distances.mean() if self.distances.numel() else self.distances.new_zeros(())


@dataclass(frozen=True)
class Sampling:
    """How a prediction came about: what has to be alike for scores to compare. `str` says it in words.

    Attributes:
        draws: How many; 0 where nothing was drawn, so that the prediction is the same every time; "moments"
            where fixed points stand for the moments of the weights and the memory.
        seed: What the draws, which all rows share, are a function of. None where nothing was drawn, or where
            the draws come from elsewhere.
    """

    draws: int | Literal["moments"]
    seed: int | None = None

    def __str__(self) -> str:
        if self.draws in (0, "moments"):
            return "by moments" if self.draws else "without draws"
        made = "of its own" if self.seed is None else f"of seed {self.seed}"
        return f"with {self.draws} draw{'s' * (self.draws != 1)} {made}"


DETERMINISTIC = Sampling(draws=0)
"""Nothing is drawn: the means of the weights and of the memory."""

BY_MOMENTS = Sampling(draws="moments")
"""Nothing is drawn either: fixed points stand for the moments (`draws="moments"`)."""


class Familiarity(NamedTuple):
    """How familiar inputs are, one number each; the p-values are small for what is strange.

    Attributes:
        p_value: A conformal p-value in (0, 1], of which a promise can be made.
        statistic: T, which the p-value is the rank of; it goes on growing where the p-value has ended.
        unlike_domain: A conformal p-value by itself: is it far from everything that was seen?
        unlike_classes: Another: is it like one of the classes, rather than like the domain as a whole?
        far_from_domain: What `unlike_domain` is the rank of.
        far_from_classes: What `unlike_classes` is the rank of.
    """

    p_value: Tensor
    statistic: Tensor
    unlike_domain: Tensor
    unlike_classes: Tensor
    far_from_domain: Tensor
    far_from_classes: Tensor


@dataclass(frozen=True)
class Predictive:
    """The predictive distribution of a batch: a belief over π for each draw of θ = (w, Z).

    `belief` has the axes draws × batch × classes; `sampling` says how the draws were made; `domain` says how
    familiar the inputs are, where the predictor has a domain memory; `scores` are others of how unfamiliar
    each input is, by name, such as the post-hoc ones of `totalcal.baselines.ood`. Draws of an ensemble's
    `members` stand one member after the other. A `totalcal.Model` adds what it knows of its held-out rows,
    `sets` of classes and the `gate` that decides, and the names of its `classes`.
    """

    belief: Belief
    sampling: Sampling = DETERMINISTIC
    domain: Familiarity | None = None
    scores: Mapping[str, Tensor] = field(default_factory=dict)
    members: int = 1
    sets: "SetRule | None" = None
    gate: "DecisionRule | None" = None
    classes: tuple[Any, ...] | None = None

    def __repr__(self) -> str:
        from totalcal.printing import in_five_lines

        return in_five_lines(self)

    def _repr_html_(self) -> str:
        from totalcal.printing import for_a_notebook

        return for_a_notebook(self)

    def to_frame(self) -> Any:
        """A data frame with a row per input: label, confidence, and what else the prediction knows.

        Raises:
            MissingExtraError: Without pandas.
        """
        from totalcal.printing import columns

        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("pandas", "tables", "a table of predictions") from error
        return pd.DataFrame(columns(self))

    @cached_property
    def labels(self) -> Any:
        """The answer to each input: the name of a class, or its number where classes have no names.

        It is the most probable class, or that of least expected cost where costs decide.
        """
        probabilities = self.probabilities.cpu().numpy()
        places = probabilities.argmax(-1) if self.gate is None else self.gate.answers(probabilities)
        if self.classes is None:
            return places
        of_one_type = len({type(name) for name in self.classes}) == 1
        return np.array(self.classes, dtype=None if of_one_type else object)[places]

    @cached_property
    def confidence(self) -> Tensor:
        """The probability of the most probable class."""
        return self.probabilities.amax(-1)

    def top(self, k: int = 3) -> list[list[tuple[Any, float]]]:
        """The k most probable classes of each input, each with its probability.

        Example:
            >>> cat = Predictive(PointMass(torch.tensor([[[2.0, 0.0]]])), classes=("cat", "dog"))
            >>> [(name, round(p, 2)) for name, p in cat.top(1)[0]]
            [('cat', 0.88)]
        """
        values, places = self.probabilities.topk(min(k, self.probabilities.shape[-1]))
        names = self.classes or range(self.probabilities.shape[-1])
        return [
            [(names[place], value) for place, value in zip(*row, strict=True)]
            for row in zip(places.tolist(), values.tolist(), strict=True)
        ]

    @property
    def decision(self) -> list[str]:
        """What to do with each input: accept, ask, or not my domain.

        Raises:
            GateError: If nothing decides: the prediction is not of a calibrated model.
        """
        return list(self._decisions.verdicts)

    @property
    def why(self) -> list[str]:
        """Why an input is not accepted; empty where it is."""
        return list(self._decisions.reasons)

    @cached_property
    def _decisions(self) -> Any:
        if self.gate is None:
            raise GateError(
                "nothing decides about this prediction. Predict with what totalcal.calibrate gives, or fit a "
                "gate, totalcal.Gate.fit(model, held_out, labels), and call it with the prediction."
            )
        return self.gate(self)

    @property
    def draws(self) -> int:
        """How many draws of θ the prediction has."""
        return self.belief.mean.shape[0]

    @cached_property
    def probabilities(self) -> Tensor:
        """p(y | x): the mean over θ and π, batch × classes."""
        mean = self.belief.mean
        return mean[0] if len(mean) == 1 else mean.mean(0)

    @cached_property
    def entropy(self) -> Tensor:
        """H(p), the paper's score of domain mismatch."""
        return categorical_entropy(self.probabilities)

    @cached_property
    def mutual_information(self) -> Tensor:
        """I(y; π, θ) = H(p) − E[H(y | π)]: what knowing the model and π would tell of the label."""
        return (self.entropy - self.belief.expected_entropy().mean(0)).clamp_min(0)

    @cached_property
    def mutual_information_of_model(self) -> Tensor:
        """I(y; θ) = H(p) − E_s H(m_s), the part of the mutual information that is due to θ."""
        return (self.entropy - categorical_entropy(self.belief.mean).mean(0)).clamp_min(0)

    @property
    def mutual_information_of_belief(self) -> Tensor:
        """E_s I(y; π | θ), the part that is due to π."""
        return (self.mutual_information - self.mutual_information_of_model).clamp_min(0)

    @property
    def familiarity(self) -> Tensor:
        """A conformal p-value in (0, 1] for each input: how many held-out rows are at most as familiar.

        Raises:
            DomainError: If the predictor has no domain memory.
        """
        return self._known_domain().p_value

    @property
    def unfamiliarity(self) -> Tensor:
        """T(x) ≥ 0, of which the familiarity is the rank: what tells inputs of another domain apart.

        Raises:
            DomainError: If the predictor has no domain memory.
        """
        return self._known_domain().statistic

    @property
    def unlike_domain(self) -> Tensor:
        """A conformal p-value: small where an input is far from everything that was seen ("not from here").

        Raises:
            DomainError: If the predictor has no domain memory.
        """
        return self._known_domain().unlike_domain

    @property
    def unlike_classes(self) -> Tensor:
        """A conformal p-value: small where an input is like no class ("from here, but of none I know").

        Raises:
            DomainError: If the predictor has no domain memory.
        """
        return self._known_domain().unlike_classes

    def _known_domain(self) -> Familiarity:
        if self.domain is None:
            raise DomainError(
                "this predictor has no memory of its domain, so it cannot say how familiar an input is. "
                "Give it one: totalcal.remember(model, train, held_out)."
            )
        return self.domain

    @property
    def concentration(self) -> Tensor:
        """The mean over draws of α₀; ∞ where π is a point mass."""
        return self.belief.concentration.mean(0)

    def decompose(self) -> Decomposition:
        """The variance of the label in three terms: reducible, irreducible, data (sections 3 and 4).

        Returns:
            Three tensors, batch × classes; each is estimated without bias, and they add up to p (1 − p) plus
                what sampling leaves open of p. `summed()` adds up the classes.

        Example:
            >>> sure = Predictive(PointMass(torch.tensor([[[0.0, 0.0]]])))
            >>> sure.decompose().summed().data
            tensor([0.5000], dtype=torch.float64)
        """
        return self._decomposition

    @cached_property
    def _decomposition(self) -> Decomposition:
        complete, paired = self.sampling == BY_MOMENTS, self.sampling.seed is not None
        return decompose(self.belief.mean, self.belief.variance, paired, complete, self.members)

    def set(self, coverage: float = 0.9) -> Tensor:
        """Batch × classes: the classes that cannot be ruled out; the true one is among them so often.

        Args:
            coverage: At least how often, over rows exchangeable with the held-out ones, whatever the model.

        Raises:
            GateError: If this needs more held-out rows than there were.
            InputError: If the prediction knows of no held-out rows.

        Example:
            `load("digits.totalcal").predict(rows).set(coverage=0.95)`
        """
        if self.sets is None:
            raise InputError(
                "this prediction knows of no held-out rows. Make sets = PredictionSets.fitted(prediction of "
                "held-out rows, labels), and call sets(prediction); or save(…, sets=sets): what the loaded "
                "model predicts knows them."
            )
        return torch.from_numpy(self.sets.at(coverage)(self))

    @classmethod
    def joined(cls, parts: Sequence["Predictive"]) -> "Predictive":
        """Predictions of several batches as one, in order."""
        belief = type(parts[0].belief).joined([part.belief for part in parts])
        ways = {part.sampling for part in parts}
        known = [part.domain for part in parts if part.domain is not None]
        domain = Familiarity(*map(torch.cat, zip(*known, strict=True))) if len(known) == len(parts) else None
        shared = [name for name in parts[0].scores if all(name in part.scores for part in parts)]
        scores = {name: torch.cat([part.scores[name] for part in parts]) for name in shared}
        sampling = ways.pop() if len(ways) == 1 else Sampling(parts[0].draws)
        first = parts[0]
        return cls(belief, sampling, domain, scores, first.members, first.sets, first.gate, first.classes)


class DecisionRule(Protocol):
    """What to do with each input of a prediction: `totalcal.Gate`."""

    def __call__(self, prediction: Predictive) -> Any: ...

    def answers(self, probabilities: Any) -> Any: ...


class SetRule(Protocol):
    """Sets of classes at any coverage: `totalcal.PredictionSets`."""

    def at(self, coverage: float) -> "Self": ...

    def __call__(self, prediction: Predictive) -> Any: ...


@runtime_checkable
class Predictor(Protocol):
    """What predicts, and all that does: our models, files, estimators, baselines, wrapped external ones.

    `inputs` are whatever it is made for: a tensor, or a mapping or tuple of tensors (`totalcal.inputs`). One
    that does not draw takes `draws` and `seed` and leaves them alone. A row's prediction is a function of the
    row and the seed, whatever other rows there are.
    """

    def predict(
        self, inputs: Any, *, draws: Draws = "auto", seed: int = 0, context: Any = None
    ) -> Predictive:
        """The predictive distribution of each row."""
        ...
