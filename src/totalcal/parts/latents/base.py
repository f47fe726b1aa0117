"""The interface of the slot for Z, and the part that leaves it empty."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from totalcal.parts.sampling import Noise
from totalcal.types import Batch, ContextUse, MemoryUpdate


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
        return embedding[..., :0]

    def absorb(self, embedding: Tensor, labels: Tensor, noise: Noise) -> MemoryUpdate:
        return MemoryUpdate(embedding.new_zeros(0))
