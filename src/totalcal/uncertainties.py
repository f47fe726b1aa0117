"""The uncertainties of a prediction by name: the one list that gates, verdicts and tables share.

Each is one number per input; higher is less certain.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from torch import Tensor

from totalcal.errors import InputError, UnknownNameError
from totalcal.types import Predictive

Uncertainty = Callable[[Predictive], Tensor]

UNCERTAINTIES: Mapping[str, Uncertainty] = MappingProxyType(
    {
        "entropy": lambda prediction: prediction.entropy,
        "mutual_information": lambda prediction: prediction.mutual_information,
        "reducible": lambda prediction: prediction.decompose().summed().reducible,
        "irreducible": lambda prediction: prediction.decompose().summed().irreducible,
        "data": lambda prediction: prediction.decompose().summed().data,
        "negative_log_concentration": lambda prediction: -prediction.concentration.log(),
        "mutual_information_of_model": lambda prediction: prediction.mutual_information_of_model,
        "mutual_information_of_belief": lambda prediction: prediction.mutual_information_of_belief,
    }
)
"""The paper's own is the entropy (appendix B.3). A point mass has concentration ∞, so it ties at −∞."""


def uncertainty_named(name: str) -> Uncertainty:
    """The function of a name.

    Raises:
        UnknownNameError: If there is none; it names the nearest ones.
    """
    if name not in UNCERTAINTIES:
        raise UnknownNameError("uncertainty", name, UNCERTAINTIES)
    return UNCERTAINTIES[name]


def uncertainty(prediction: Predictive, name: str) -> npt.NDArray[np.float64]:
    """One of the UNCERTAINTIES of every row, as a NumPy array.

    >>> import torch
    >>> from totalcal.types import PointMass
    >>> uncertainty(Predictive(PointMass(torch.zeros(1, 1, 2))), "data")
    array([0.5])
    """
    values = uncertainty_named(name)(prediction).detach().cpu().double().numpy()
    if np.isnan(values).any():
        raise InputError(
            f"the {name} of {int(np.isnan(values).sum())} of {values.size} predictions is NaN; "
            "find its source first: inputs or weights that are not finite."
        )
    return values
