"""The scikit-learn face of the family: tables in, labels, probabilities and uncertainties out.

A class per model of the registry, as `ETPClassifier`. All take the same parameters; `model_arguments` go to
the model.
"""

from collections.abc import Callable, Mapping
from inspect import getdoc
from types import MappingProxyType
from typing import TYPE_CHECKING

from totalcal import registry
from totalcal.estimators.classifier import ProcessClassifier
from totalcal.estimators.pipeline import Pipeline
from totalcal.models import MODELS

EXPECTED_FAILED_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "rows are drawn in proportion to their weights: a weight of 2 is two rows on average, not to the bit"
    ),
}
"""For scikit-learn's `check_estimator(…, expected_failed_checks=…)`; its SGDClassifier has the same."""


def _estimator(model: str) -> type[ProcessClassifier]:
    about = {"_model_name": model, "__doc__": _documented(MODELS[model]), "__module__": __name__}
    return type(registry.classifier_name(model), (ProcessClassifier,), about)


def _documented(factory: Callable[..., object]) -> str:
    """What the model is, and what all estimators take."""
    (summary, *_), (_, *shared) = (str(getdoc(what)).split("\n\n") for what in (factory, ProcessClassifier))
    return "\n\n".join([summary, *shared])


ESTIMATORS: Mapping[str, type[ProcessClassifier]] = MappingProxyType(
    {model: _estimator(model) for model in registry.MODEL_NAMES}
)
"""The scikit-learn classifier of every model, by the model's name."""

_NAMES = {registry.classifier_name(model): estimator for model, estimator in ESTIMATORS.items()}

globals().update(_NAMES)

__all__ = ["ESTIMATORS", "EXPECTED_FAILED_CHECKS", "Pipeline", "ProcessClassifier", *_NAMES]

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[ProcessClassifier]: ...
