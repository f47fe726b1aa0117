"""The data of the paper's two toys (appendix B.1, B.2), each with a classifier to hold the memory against."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from totalcal.errors import UnknownNameError
from totalcal.types import Batch

POINTS_A_CLASS = 20


class Toy(NamedTuple):
    """A small problem and its net.

    `reference` gives log-odds that no model here has seen (inputs × classes, up to a constant an input): the
    truth where it is known. It says which class is right at an input, and how far the boundary is.
    """

    name: str
    data: Batch
    hidden: tuple[int, ...]
    classes: tuple[str, ...]
    reference: Callable[[Tensor], Tensor]

    def right_class(self, inputs: Tensor) -> Tensor:
        return self.reference(inputs).argmax(-1)

    def distance(self, inputs: Tensor) -> Tensor:
        """How far the boundary is: the log-odds of the right class against the next one."""
        best, next_best = self.reference(inputs).topk(2, dim=-1).values.unbind(-1)
        return best - next_best


def gaussians(generator: torch.Generator) -> Toy:
    """Two classes on a line, 20 points each, x | y ~ N(±1, 1) (appendix B.1).

    >>> gaussians(torch.Generator().manual_seed(0)).data.inputs.shape
    torch.Size([40, 1])
    """
    labels = torch.arange(2).repeat_interleave(POINTS_A_CLASS)
    inputs = class_centres()[labels] + torch.randn(len(labels), generator=generator)
    return Toy("gaussians", Batch(inputs.unsqueeze(1), labels), (32,), ("left", "right"), _true_log_odds)


def class_centres() -> Tensor:
    return torch.tensor([-1.0, 1.0])


def iris(generator: torch.Generator) -> Toy:
    """Fisher's iris on its first two principal components (appendix B.2).

    There is no truth to hold the memory against; linear discriminants stand in for it.
    """
    from sklearn.datasets import load_iris
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    flowers = load_iris()
    plane = PCA(n_components=2).fit_transform(flowers.data)
    discriminants = LinearDiscriminantAnalysis().fit(plane, flowers.target)

    def log_odds(inputs: Tensor) -> Tensor:
        return torch.from_numpy(discriminants.decision_function(inputs.double().numpy()))

    data = Batch(torch.from_numpy(plane).float(), torch.from_numpy(flowers.target).long())
    return Toy("iris", data, (32, 32), tuple(str(name) for name in flowers.target_names), log_odds)


TOYS: dict[str, Callable[[torch.Generator], Toy]] = {"gaussians": gaussians, "iris": iris}


def toy_named(name: str) -> Callable[[torch.Generator], Toy]:
    if name not in TOYS:
        raise UnknownNameError("toy", name, TOYS)
    return TOYS[name]


def _true_log_odds(inputs: Tensor) -> Tensor:
    """log p(x | y) up to a constant: the classes are equally frequent."""
    return -0.5 * (inputs - class_centres()).square()  # [inputs, classes]
