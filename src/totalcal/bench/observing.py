"""A predictor that is watched: what it says of each row is kept, without the draws."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from totalcal.scores.asking import ask
from totalcal.types import Predictive, Predictor


class Observed(NamedTuple):
    """A row for each input: p(y | x), its entropy, and the three terms summed over classes."""

    probabilities: Tensor  # [n, classes]
    entropy: Tensor  # [n]
    terms: Tensor  # [n, 3]: reducible, irreducible, data

    def rows(self, chosen: slice) -> "Observed":
        return Observed(*(values[chosen] for values in self))


@dataclass
class Observer:
    """Passes every call on, so that curves and scores come from the same predictions."""

    predictor: Predictor
    seen: list[Observed] = field(default_factory=list)

    def predict(
        self, inputs: Tensor, draws: int = 10, generator: torch.Generator | None = None
    ) -> Predictive:
        predictive = ask(self.predictor, inputs, draws, generator)
        terms = torch.stack(predictive.decompose().summed(), dim=-1)
        self.seen.append(Observed(predictive.probabilities, predictive.entropy, terms))
        return predictive

    def split(self, counts: dict[str, int]) -> dict[str, Observed]:
        """What was seen of several sets, one after the other, each with so many rows."""
        everything = Observed(*(torch.cat(values) for values in zip(*self.seen, strict=True)))
        sets, start = {}, 0
        for name, count in counts.items():
            sets[name] = everything.rows(slice(start, start + count))
            start += count
        return sets
