"""One training step's forward pass, as one module that data-parallel wrappers can hold."""

from torch import Tensor, nn

from totalcal.parts.sampling import WeightKLs
from totalcal.process import TuringProcess
from totalcal.training.options import Contexts
from totalcal.types import LossTerms, Movement


class TrainingStep(nn.Module):
    """Encode a batch once; write its first rows to the memory; the free energy of all of it."""

    def __init__(self, process: TuringProcess, write: str = Contexts.write) -> None:
        super().__init__()
        self.process, self.write = process, write

    def forward(self, inputs: Tensor, labels: Tensor, context: int) -> tuple[LossTerms, Movement]:
        kls: WeightKLs = {}
        embedding = self.process.encode(inputs, kls=kls)
        rows = embedding[:context].detach(), labels[:context]
        if self.write == "before":
            movement = self.process.absorb(*rows)
            return self.process.loss_terms(embedding, labels, context, kls=kls), movement
        terms = self.process.loss_terms(embedding, labels, context, kls=kls)
        return terms, self.process.absorb(*rows)
