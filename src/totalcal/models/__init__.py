"""The model family: one small file per row of the paper's ablation table; `totalcal.registry` names them.

What the factories have in common:

Args:
    backbone: A net that ends in one column per class. It is copied, and so never changed.
    num_classes: K, at least 2.
    layers: Which layers get a distribution over their weights: "linear", "all", "none", or name patterns.
    weight_prior: p(w); a normal distribution if not given.
    weight_kl_scale: How much the KL of the weights counts; 1 is the real bound.
    local_kl_scale: How much the KL between the beliefs over π counts.
    latent_kl_scale: How much the KL of the latent Z counts; 1 is the real bound.
    width: Entries of the latent Z.

Each gives an untrained model: hand it to `totalcal.fit` or `totalcal.train`. Its new weights (evidence map,
keys, cells) are drawn from torch's global generator, as those of torch's own layers: `torch.manual_seed`
fixes them.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from totalcal import registry
from totalcal.errors import UnknownNameError
from totalcal.models.process import GivenContext, TuringProcess

Factory = Callable[..., TuringProcess]
"""A factory: a backbone and the number of classes in, a process out."""


def _factory(name: str) -> Factory:
    made: Factory = getattr(import_module(f"{__name__}.{name}"), name)
    return made


MODELS: Mapping[str, Factory] = MappingProxyType({name: _factory(name) for name in registry.MODEL_NAMES})
"""The factory of every model by name, in the order in which tables list them."""

globals().update(MODELS)  # after the imports, which leave the files under these names

__all__ = ["MODELS", "GivenContext", "TuringProcess", "model_named", *MODELS]


def model_named(name: str) -> Factory:
    """The factory of a model by its name.

    Args:
        name: A key of `MODELS`.

    Returns:
        The function that makes the model: `factory(backbone, num_classes=10, …)`.

    Raises:
        UnknownNameError: There is none of this name; it names the nearest.

    Example:
        >>> from torch import nn
        >>> model_named("etp")(nn.Linear(4, 3), num_classes=3).num_classes
        3
    """
    if name not in MODELS:
        raise UnknownNameError("model", name, MODELS)
    return MODELS[name]


if TYPE_CHECKING:

    def __getattr__(name: str) -> Factory: ...
