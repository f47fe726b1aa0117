"""totalcal: classifiers that know what they do not know, and prove it.

The public names resolve when they are first used, so that importing the package costs no more than torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "ANPClassifier": "totalcal.estimator",
    "BNNClassifier": "totalcal.estimator",
    "Batch": "totalcal.types",
    "Decomposition": "totalcal.types",
    "EDLClassifier": "totalcal.estimator",
    "ENPClassifier": "totalcal.estimator",
    "ETPClassifier": "totalcal.estimator",
    "Gate": "totalcal.rejection",
    "LossTerms": "totalcal.types",
    "LossWeights": "totalcal.types",
    "MODELS": "totalcal.models",
    "NPClassifier": "totalcal.estimator",
    "Predictive": "totalcal.types",
    "Predictor": "totalcal.types",
    "Preprocessing": "totalcal.files.preprocessing",
    "Recipe": "totalcal.files.recipe",
    "SavedModel": "totalcal.files.saved",
    "SoftmaxClassifier": "totalcal.estimator",
    "TuringProcess": "totalcal.process",
    "anp": "totalcal.models",
    "bnn": "totalcal.models",
    "edl": "totalcal.models",
    "enp": "totalcal.models",
    "etp": "totalcal.models",
    "fit": "totalcal.training.fit",
    "load": "totalcal.files.saved",
    "np": "totalcal.models",
    "save": "totalcal.files.saved",
    "softmax": "totalcal.models",
    "train": "totalcal.training.loop",
    "wrap": "totalcal.wrapping",
}

__all__ = [
    "MODELS",
    "ANPClassifier",
    "BNNClassifier",
    "Batch",
    "Decomposition",
    "EDLClassifier",
    "ENPClassifier",
    "ETPClassifier",
    "Gate",
    "LossTerms",
    "LossWeights",
    "NPClassifier",
    "Predictive",
    "Predictor",
    "Preprocessing",
    "Recipe",
    "SavedModel",
    "SoftmaxClassifier",
    "TuringProcess",
    "__version__",
    "anp",
    "bnn",
    "edl",
    "enp",
    "etp",
    "fit",
    "load",
    "np",
    "save",
    "softmax",
    "train",
    "wrap",
]

if TYPE_CHECKING:
    from totalcal.estimator import (
        ANPClassifier,
        BNNClassifier,
        EDLClassifier,
        ENPClassifier,
        ETPClassifier,
        NPClassifier,
        SoftmaxClassifier,
    )
    from totalcal.files.preprocessing import Preprocessing
    from totalcal.files.recipe import Recipe
    from totalcal.files.saved import SavedModel, load, save
    from totalcal.models import MODELS, anp, bnn, edl, enp, etp, np, softmax
    from totalcal.process import TuringProcess
    from totalcal.rejection import Gate
    from totalcal.training.fit import fit
    from totalcal.training.loop import train
    from totalcal.types import Batch, Decomposition, LossTerms, LossWeights, Predictive, Predictor
    from totalcal.wrapping import wrap


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'totalcal' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
