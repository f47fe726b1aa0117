"""totalcal: classifiers that know what they do not know, and prove it.

The public names resolve when they are first used, so that importing the package costs next to nothing, and
using a model no more than torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_NAMES = {
    "totalcal.corruptions": ("corrupt",),
    "totalcal.estimator": (
        "ANPClassifier",
        "BNNClassifier",
        "EDLClassifier",
        "ENPClassifier",
        "ETPClassifier",
        "NPClassifier",
        "SoftmaxClassifier",
    ),
    "totalcal.files.preprocessing": ("Preprocessing",),
    "totalcal.files.saved": ("SavedModel", "load", "save"),
    "totalcal.models": ("MODELS", "anp", "bnn", "edl", "enp", "etp", "np", "softmax"),
    "totalcal.process": ("TuringProcess",),
    "totalcal.remembering": ("remember",),
    "totalcal.rejection": ("Gate",),
    "totalcal.rivals": ("RIVALS",),
    "totalcal.scores": ("Verdict", "evaluate"),
    "totalcal.training.fit": ("fit",),
    "totalcal.training.loop": ("train",),
    "totalcal.types": ("Batch", "Decomposition", "LossTerms", "LossWeights", "Predictive", "Predictor"),
    "totalcal.wrapping": ("wrap",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
_ROOMS = (
    "backbones",
    "corruptions",
    "data",
    "functional",
    "models",
    "parts",
    "records",
    "rivals",
    "scores",
    "training",
)

__all__ = [
    "MODELS",
    "RIVALS",
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
    "SavedModel",
    "SoftmaxClassifier",
    "TuringProcess",
    "Verdict",
    "__version__",
    "anp",
    "bnn",
    "corrupt",
    "edl",
    "enp",
    "etp",
    "evaluate",
    "fit",
    "load",
    "np",
    "remember",
    "save",
    "softmax",
    "train",
    "wrap",
]

if TYPE_CHECKING:
    from totalcal.corruptions import corrupt
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
    from totalcal.files.saved import SavedModel, load, save
    from totalcal.models import MODELS, anp, bnn, edl, enp, etp, np, softmax
    from totalcal.process import TuringProcess
    from totalcal.rejection import Gate
    from totalcal.remembering import remember
    from totalcal.rivals import RIVALS
    from totalcal.scores import Verdict, evaluate
    from totalcal.training.fit import fit
    from totalcal.training.loop import train
    from totalcal.types import Batch, Decomposition, LossTerms, LossWeights, Predictive, Predictor
    from totalcal.wrapping import wrap


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"totalcal.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'totalcal' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS]
