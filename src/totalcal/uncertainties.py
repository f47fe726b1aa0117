"""The uncertainties of a prediction by name: the one list that gates, verdicts and tables share.

Each is one number per input; higher is less certain.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from totalcal.errors import InputError, UnknownNameError

if TYPE_CHECKING:  # the names are needed where there is no torch
    from torch import Tensor

    from totalcal.types import Predictive

Uncertainty: TypeAlias = "Callable[[Predictive], Tensor]"

UNFAMILIARITY = "unfamiliarity"
FAMILIARITY = "familiarity"
UNFAMILIARITIES = (UNFAMILIARITY, "far_from_domain", "far_from_classes")
"""What a memory of the domain says: T, and the two that it is made of."""

P_VALUES = (FAMILIARITY, "unlike_domain", "unlike_classes")
"""Their ranks among held-out rows, conformal p-values, so the scores of a gate of which low values reject."""

CONFIDENCE = "confidence"
"""The probability of the predicted class: low values reject."""
EXPECTED_COST = "expected_cost"
"""That of the best answer, where costs decide (`totalcal.Costs`)."""

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


def uncertainties_of(prediction: "Predictive") -> "dict[str, Tensor]":
    """All that a prediction has, by name: UNCERTAINTIES, UNFAMILIARITIES and the scores that came along.

    >>> import torch
    >>> from totalcal.types import PointMass, Predictive
    >>> prediction = Predictive(PointMass(torch.zeros(1, 1, 2)), scores={"knn": torch.ones(1)})
    >>> list(uncertainties_of(prediction))[-1]
    'knn'
    """
    found = {name: measure(prediction) for name, measure in UNCERTAINTIES.items()}
    if prediction.domain is not None:
        _, statistic, _, _, far_from_domain, far_from_classes = prediction.domain
        found |= zip(UNFAMILIARITIES, (statistic, far_from_domain, far_from_classes), strict=True)
    return {**found, **prediction.scores}


def uncertainty(prediction: "Predictive", name: str) -> npt.NDArray[np.float64]:
    """An uncertainty of every row, as a NumPy array: one of the `uncertainties_of` the prediction.

    >>> import torch
    >>> from totalcal.types import PointMass, Predictive
    >>> uncertainty(Predictive(PointMass(torch.zeros(1, 1, 2))), "data")
    array([0.5])
    """
    values = _tensor(prediction, name).detach().cpu().double().numpy()
    if np.isnan(values).any():
        raise InputError(
            f"the {name} of {int(np.isnan(values).sum())} of {values.size} predictions is NaN; "
            "find its source first: inputs or weights that are not finite."
        )
    return values


def why_rejected(name: str, value: float, threshold: float) -> str:
    """Why a row was rejected, in words.

    >>> why_rejected("entropy", 0.7, 0.25)
    'entropy 0.7 is above 0.25'
    """
    if name in P_VALUES:
        return f"{name} {value:.3g} is at most {threshold:.3g}"
    if name == EXPECTED_COST:
        return f"an answer is expected to cost more than {threshold:.4g}"
    if name == CONFIDENCE:
        return f"{name} {value:.4g} is below {threshold:.4g}"
    return f"{name} {value:.4g} is above {threshold:.4g}"


def how_unlike(domain: float, classes: float) -> str:
    """Which of the two reasons of a low familiarity is the stronger.

    >>> how_unlike(domain=0.01, classes=0.3)
    'not from here'
    """
    return "not from here" if domain <= classes else "no class I know"


def _tensor(prediction: "Predictive", name: str) -> "Tensor":
    if name in P_VALUES:
        return cast("Tensor", getattr(prediction, name))
    if name == CONFIDENCE:
        return prediction.confidence
    if name == UNFAMILIARITY or (name in UNFAMILIARITIES and prediction.domain is None):
        return prediction.unfamiliarity  # which says what to do where there is no memory
    if name in UNFAMILIARITIES:
        return cast("Tensor", getattr(prediction.domain, name))
    if name in UNCERTAINTIES:
        return UNCERTAINTIES[name](prediction)
    if name in prediction.scores:
        return prediction.scores[name]
    raise UnknownNameError("uncertainty", name, uncertainties_of(prediction))
