"""Z from a context set by an encoder: the neural processes (section 6)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from totalcal.functional import gaussian
from totalcal.functional.cells import attention_weights, read
from totalcal.parts.latents.base import Latent
from totalcal.parts.sampling import Noise
from totalcal.ranks import is_distributed
from totalcal.types import Batch, ContextUse, MemoryUpdate

_MINIMAL_SCALE = 0.01


class PairEncoder(nn.Module):
    """e_j = MLP(v(x_j), onehot(y_j)), one vector per context pair."""

    def __init__(self, num_classes: int, hidden: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.layers = nn.Sequential(
            nn.Linear(2 * num_classes, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )

    def forward(self, embedding: Tensor, labels: Tensor) -> Tensor:
        onehot = F.one_hot(labels, self.num_classes).to(embedding).expand_as(embedding)
        encoded: Tensor = self.layers(torch.cat([embedding, onehot], -1))
        return encoded


class GaussianMap(nn.Module):
    """(μ, σ) = linear(r), σ = 0.01 + 0.99 softplus."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden, 2 * width)

    def forward(self, summary: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = self.linear(summary).chunk(2, -1)
        return mean, _MINIMAL_SCALE + (1 - _MINIMAL_SCALE) * F.softplus(raw)


class ContextLatent(Latent):
    """Z by a Gaussian, from encoded context pairs; nothing to write. Abstract."""

    def __init__(self, num_classes: int, width: int, hidden: int) -> None:
        super().__init__()
        self.width = width
        self.encoder = PairEncoder(num_classes, hidden)
        self.distribution = GaussianMap(hidden, width)  # from a summary of pairs to mean and scale of Z

    def absorb(self, embedding: Tensor, labels: Tensor, noise: Noise) -> MemoryUpdate:
        return MemoryUpdate(embedding.new_zeros(0))


class SetLatent(ContextLatent):
    """NP: one Z for the whole set, from the mean of its encoded pairs; q(Z | ∅) = N(0, I)."""

    context_use = ContextUse.OPTIONAL

    def __init__(self, num_classes: int, width: int = 32, hidden: int = 128) -> None:
        super().__init__(num_classes, width, hidden)

    def infer(self, embedding: Tensor, labels: Tensor, context: int, noise: Noise) -> tuple[Tensor, Tensor]:
        """Z ~ q(Z | T), KL(q(Z | T) ‖ q(Z | C)) / |T|; in half of the steps C is left empty.

        Half of the steps, so that N(0, I), which serves where no context is given, is a trained prior.
        """
        encoded = self.encoder(embedding, labels)
        mean, scale = self.distribution(encoded.mean(0))
        prior_mean, prior_scale = torch.zeros_like(mean), torch.ones_like(scale)
        if context:
            given_mean, given_scale = self.distribution(encoded[:context].mean(0))
            kept = noise.uniform(mean) < 0.5
            prior_mean = torch.where(kept, given_mean, prior_mean)
            prior_scale = torch.where(kept, given_scale, prior_scale)
        kl = gaussian.kl(mean, scale.square(), prior_mean, prior_scale.square())
        latent = mean + scale * noise.normal(tuple(mean.shape), mean)
        return latent.expand(len(embedding), -1), kl / len(embedding)

    def draw(self, embedding: Tensor, context: Batch | None, draws: int, noise: Noise) -> Tensor:
        mean, scale = embedding.new_zeros(1, self.width), embedding.new_ones(1, self.width)
        if context is not None:
            summary = self.encoder(context.inputs, context.labels).mean(-2)  # [draws or 1, width]
            mean, scale = self.distribution(summary)
        latent = mean + scale * noise.draws(draws, (self.width,), embedding)
        return latent.unsqueeze(-2).expand(-1, embedding.shape[-2], -1)


class TargetLatent(ContextLatent):
    """ENP, ANP: one Z for each target, from the context pairs that its embedding attends to.

    Without a context q(Z | x, ∅) is the prior N(`prior_mean`, `prior_variance` I).
    """

    def __init__(
        self,
        num_classes: int,
        prior_mean: float,
        prior_variance: float,
        context_use: ContextUse,
        width: int = 32,
        hidden: int = 128,
    ) -> None:
        super().__init__(num_classes, width, hidden)
        self.context_use = context_use
        self.prior_mean, self.prior_variance = prior_mean, prior_variance

    def infer(self, embedding: Tensor, labels: Tensor, context: int, noise: Noise) -> tuple[Tensor, Tensor]:
        """Z ~ q(Z | x, C) for the rows after the context, one or more.

        A context row would attend to its own label.
        """
        context = min(context, len(embedding) - 1)
        targets = embedding[context:]
        mean, scale = self._prior(targets)
        if context:
            mean, scale = self._attended(targets, Batch(embedding[:context], labels[:context]))
        prior_mean, prior_scale = self._prior(targets)
        kl = gaussian.kl(mean, scale.square(), prior_mean, prior_scale.square()).mean()
        if not context and is_distributed():
            kl = kl + 0 * sum(weight.sum() for weight in self.parameters())  # ranks wait for all gradients
        return mean + scale * noise.normal(tuple(mean.shape), mean), kl

    def draw(self, embedding: Tensor, context: Batch | None, draws: int, noise: Noise) -> Tensor:
        mean, scale = self._prior(embedding) if context is None else self._attended(embedding, context)
        return mean + scale * noise.draws(draws, (1, self.width), embedding)  # shared by all rows

    def _attended(self, targets: Tensor, context: Batch) -> tuple[Tensor, Tensor]:
        weights = attention_weights(targets, context.inputs)  # [..., targets, context]
        mean, scale = self.distribution(read(weights, self.encoder(context.inputs, context.labels)))
        return mean, scale

    def _prior(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        shape = (*targets.shape[:-1], self.width)
        return targets.new_full(shape, self.prior_mean), targets.new_full(shape, self.prior_variance**0.5)
