"""One number an input, by name: what a gate looks at and what a table of uncertainties shows."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from torch import Tensor

from totalcal.errors import UnknownNameError
from totalcal.scores.arrays import Floats, floats
from totalcal.types import Predictive

UNCERTAINTIES: Mapping[str, Callable[[Predictive], Tensor]] = MappingProxyType(
    {
        "entropy": lambda prediction: prediction.entropy,
        "reducible": lambda prediction: prediction.decompose().summed().reducible,
        "irreducible": lambda prediction: prediction.decompose().summed().irreducible,
        "data": lambda prediction: prediction.decompose().summed().data,
        "mutual_information": lambda prediction: prediction.mutual_information,
    }
)

OVERLAP_AND_DOMAIN: Mapping[str, str] = MappingProxyType(
    {"mutual_information": "not my domain", "data": "ask a person"}
)
"""Two bars at once. Domain mismatch comes first: that classes overlap says nothing of a foreign input."""


def uncertainty(prediction: Predictive, name: str) -> Floats:
    """One of the UNCERTAINTIES, a number for each input; higher is less certain.

    >>> import torch
    >>> from totalcal.types import PointMass
    >>> uncertainty(Predictive(PointMass(torch.zeros(1, 1, 2))), "data")
    array([0.5])
    """
    if name not in UNCERTAINTIES:
        raise UnknownNameError("uncertainty", name, UNCERTAINTIES)
    return floats(UNCERTAINTIES[name](prediction), f"the {name} of the predictions")
