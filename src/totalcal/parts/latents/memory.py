"""The external memory: Z ~ N(M, κ²I), read by attention, written by the rule r (section 7)."""

import math

import torch
from torch import Tensor, nn

from totalcal.errors import InputError
from totalcal.functional.cells import (
    CellStart,
    UpdateRule,
    multi_head_weights,
    read,
    squared_noise,
    tanh_blend,
    written_content,
)
from totalcal.parts.latents.base import Latent
from totalcal.parts.sampling import FullPrecision, Noise
from totalcal.ranks import summed
from totalcal.types import Batch, ContextUse, MemoryUpdate


class LinearKeys(nn.Module):
    """k_ψ: a linear map per head from cells to keys; [..., cells, width] to [..., heads, cells, width]."""

    def __init__(self, width: int, heads: int = 1) -> None:
        super().__init__()
        self.heads = heads
        self.linear = nn.Linear(width, heads * width)

    def forward(self, cells: Tensor) -> Tensor:
        keys: Tensor = self.linear(cells)
        by_head: Tensor = keys.unflatten(-1, (self.heads, -1))
        return by_head.transpose(-2, -3)


class IdentityKeys(nn.Module):
    """The cells are their own keys, as in the paper's toys (appendix B)."""

    def forward(self, cells: Tensor) -> Tensor:
        return cells.unsqueeze(-3)


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
        return multi_head_weights(embedding, self.key_map(cells))

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
