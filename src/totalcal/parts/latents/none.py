"""No Z: the weights are all there is."""

from torch import Tensor

from totalcal.parts.latents.base import Latent
from totalcal.parts.sampling import Noise
from totalcal.types import Batch, ContextUse, Movement


class NoLatent(Latent):
    """A readout without columns; nothing to infer, nothing to write."""

    width = 0
    context_use = ContextUse.NONE

    def infer(self, embedding: Tensor, labels: Tensor, context: int, noise: Noise) -> tuple[Tensor, Tensor]:
        return embedding[:, :0], embedding.new_zeros(())

    def draw(self, embedding: Tensor, context: Batch | None, draws: int, noise: Noise) -> Tensor:
        return embedding[..., :0]

    def absorb(self, embedding: Tensor, labels: Tensor, noise: Noise) -> Movement:
        return Movement(embedding.new_zeros(0))
