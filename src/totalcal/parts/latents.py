"""The slot for Z: what a model knows beyond its weights (sections 6 and 7).

Nothing, a set of examples that an encoder sums up (the neural processes), or an external memory.
"""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from totalcal.errors import InputError
from totalcal.functional import gaussian
from totalcal.functional.cells import (
    CellStart,
    UpdateRule,
    attention_weights,
    read,
    squared_noise,
    tanh_blend,
    written_content,
)
from totalcal.parts.sampling import FullPrecision, Noise
from totalcal.ranks import is_distributed, summed
from totalcal.types import Batch, ContextUse, MemoryUpdate

_MINIMAL_SCALE = 0.01


class Latent(nn.Module, ABC):
    """Z: inferred while training, drawn at test, perhaps written to. Abstract: subclasses are final."""

    width: int
    """Columns of a readout."""

    context_use: ContextUse
    """Whether `draw` takes a context."""

    @abstractmethod
    def infer(self, embedding: Tensor, labels: Tensor, context: int, noise: Noise) -> tuple[Tensor, Tensor]:
        """A readout for each row of the loss, and the mean over those rows of the latent KL.

        The first `context` rows are the context. The rows of the loss are all, or those after the context.
        """

    @abstractmethod
    def draw(self, embedding: Tensor, context: Batch | None, draws: int, noise: Noise) -> Tensor:
        """A readout for each row and draw: draws × batch × width.

        `embedding` is draws × batch × classes, with one draw where the weights are points; the context's
        inputs are embeddings of the same kind.
        """

    @abstractmethod
    def absorb(self, embedding: Tensor, labels: Tensor, noise: Noise) -> MemoryUpdate:
        """Take a context in, outside of gradient descent."""


class NoLatent(Latent):
    """A readout without columns; nothing to infer, nothing to write."""

    width = 0
    context_use = ContextUse.NONE

    def infer(self, embedding: Tensor, labels: Tensor, context: int, noise: Noise) -> tuple[Tensor, Tensor]:
        return embedding[:, :0], embedding.new_zeros(())

    def draw(self, embedding: Tensor, context: Batch | None, draws: int, noise: Noise) -> Tensor:
        return embedding.narrow(-1, 0, 0)

    def absorb(self, embedding: Tensor, labels: Tensor, noise: Noise) -> MemoryUpdate:
        return MemoryUpdate(embedding.new_zeros(0))


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


class LinearKeys(nn.Module):
    """k_ψ: a linear map from cells to keys."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, cells: Tensor) -> Tensor:
        keys: Tensor = self.linear(cells)
        return keys


class IdentityKeys(nn.Module):
    """The cells are their own keys, as in the paper's toys (appendix B)."""

    def forward(self, cells: Tensor) -> Tensor:
        return cells


class ExternalMemory(Latent, FullPrecision):
    """R cells m_r ∈ R^K. The cells are a buffer: in the checkpoint, in the export, on the right device.

    The write has a generator of its own, counted in a buffer, so that the ranks of a data-parallel run draw
    the same Z and a resumed run goes on with the draws it would have made.
    """

    context_use = ContextUse.NONE
    cells: Tensor
    write_seed: Tensor

    def __init__(
        self,
        num_cells: int,
        num_classes: int,
        cell_variance: float = 0.1,
        retention: float = 0.99,
        update_rule: UpdateRule = tanh_blend,
        key_map: nn.Module | None = None,
        write_draws: int = 1,
        cell_start: CellStart = squared_noise,
    ) -> None:
        super().__init__()
        if num_cells < 1 or cell_variance < 0 or not 0 <= retention <= 1:
            raise InputError(
                "a memory needs num_cells ≥ 1, cell_variance ≥ 0 and retention in [0, 1], but got "
                f"num_cells={num_cells}, cell_variance={cell_variance}, retention={retention}."
            )
        self.width = num_classes
        self.cell_variance, self.retention, self.update_rule = cell_variance, retention, update_rule
        self.key_map = LinearKeys(num_classes) if key_map is None else key_map
        self.write_draws = write_draws
        self.register_buffer("cells", cell_start(num_cells, num_classes))
        self.register_buffer("write_seed", torch.randint(2**62, ()))

    def infer(self, embedding: Tensor, labels: Tensor, context: int, noise: Noise) -> tuple[Tensor, Tensor]:
        """q(Z) is p_M(Z) itself, so that the latent KL is 0; one draw serves the batch."""
        cells = self.drawn_cells(1, noise)[0].to(self.output_dtype)
        return read(self.attention_weights(embedding, cells), cells), embedding.new_zeros(())

    def draw(self, embedding: Tensor, context: Batch | None, draws: int, noise: Noise) -> Tensor:
        cells = self.drawn_cells(draws, noise).to(self.output_dtype)
        return read(self.attention_weights(embedding, cells), cells)

    def drawn_cells(self, draws: int, noise: Noise) -> Tensor:
        """z_r ~ N(m_r, κ²I), draws × cells × width."""
        epsilon = noise.draws(draws, tuple(self.cells.shape), self.cells)
        return self.cells + math.sqrt(self.cell_variance) * epsilon

    def attention_weights(self, embedding: Tensor, cells: Tensor) -> Tensor:
        """φ: how much each row attends to each cell, batch × cells, for every draw of the cells."""
        return attention_weights(embedding, self.key_map(cells))

    @torch.no_grad()
    def absorb(self, embedding: Tensor, labels: Tensor, noise: Noise) -> MemoryUpdate:
        """M ← E_Z[r(Z, D_C)], with the context's rows written as one sum.

        A write that is not finite changes nothing, and its distances are NaN.
        """
        cells = self.drawn_cells(self.write_draws, self._write_noise(noise)).to(self.output_dtype)
        weights = self.attention_weights(embedding, cells)  # [draws, context, cells]
        written = written_content(weights, embedding, labels).to(self.cells.dtype)
        summed(written)  # N ranks write their joined contexts: the tanh is outside of the sum
        updated = self.update_rule(self.cells, written, self.retention)
        update = MemoryUpdate((updated - self.cells).norm(dim=-1))
        self.cells.copy_(torch.where(updated.isfinite().all(), updated, self.cells))
        return update

    def _write_noise(self, noise: Noise) -> Noise:
        if noise.generator is not None:
            return noise
        own = torch.Generator().manual_seed(int(self.write_seed))
        self.write_seed.add_(1)
        return Noise(own)
