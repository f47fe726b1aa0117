"""The model family: one small file a row of the paper's ablation table, and the registry of them."""

from collections.abc import Callable

from totalcal.errors import UnknownNameError
from totalcal.models.anp import anp
from totalcal.models.bnn import bnn
from totalcal.models.edl import edl
from totalcal.models.enp import enp
from totalcal.models.etp import etp
from totalcal.models.np import np
from totalcal.models.softmax import softmax
from totalcal.process import TuringProcess

MODELS: dict[str, Callable[..., TuringProcess]] = {
    "softmax": softmax,
    "bnn": bnn,
    "edl": edl,
    "np": np,
    "anp": anp,
    "enp": enp,
    "etp": etp,
}


def model_named(name: str) -> Callable[..., TuringProcess]:
    """The constructor of a model: `model_named("etp")(backbone, num_classes=10)`."""
    if name not in MODELS:
        raise UnknownNameError("model", name, MODELS)
    return MODELS[name]


__all__ = ["MODELS", "anp", "bnn", "edl", "enp", "etp", "model_named", "np", "softmax"]
