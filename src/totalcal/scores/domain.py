"""Which uncertainty tells out-of-domain inputs apart: one number an input, higher is more foreign."""

from collections.abc import Callable

from torch import Tensor

from totalcal.errors import UnknownNameError
from totalcal.types import Predictive

Uncertainty = Callable[[Predictive], Tensor]

UNCERTAINTIES: dict[str, Uncertainty] = {
    "entropy": lambda predictive: predictive.entropy,
    "mutual_information": lambda predictive: predictive.mutual_information,
    "reducible": lambda predictive: predictive.decompose().summed().reducible,
    "irreducible": lambda predictive: predictive.decompose().summed().irreducible,
    "data": lambda predictive: predictive.decompose().summed().data,
    "negative_log_concentration": lambda predictive: -predictive.concentration.log(),
}
"""The paper's own is the entropy (appendix B.3). A point mass has concentration ∞: there the last ties."""


def uncertainty_named(name: str) -> Uncertainty:
    if name not in UNCERTAINTIES:
        raise UnknownNameError("uncertainty", name, UNCERTAINTIES)
    return UNCERTAINTIES[name]
