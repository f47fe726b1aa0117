"""totalcal: classifiers that know what they do not know, and prove it.

The public names resolve when they are first used, so that importing the package costs next to nothing, and
using a model no more than torch. `__init__.pyi` lists them; models and their estimators come from the
registry, and are listed there for type checkers alone.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import lazy_loader

from totalcal import registry

__version__ = "0.3.0"

_resolve, _, _listed = lazy_loader.attach_stub(__name__, __file__)
_OF_THE_REGISTRY = {
    **dict.fromkeys(registry.MODEL_NAMES, "models"),
    **dict.fromkeys(map(registry.classifier_name, registry.MODEL_NAMES), "estimators"),
}
_ROOMS = [
    name for name in _listed if Path(__file__).with_name(name).is_dir() or name in ("nets", "integrations")
]

__all__ = sorted({"__version__", *_listed, *_OF_THE_REGISTRY} - set(_ROOMS))


def __getattr__(name: str) -> Any:
    home = _OF_THE_REGISTRY.get(name)
    if home is None and name not in _listed:
        raise AttributeError(
            f"totalcal has no {name!r}. A trained net becomes a model by totalcal.calibrate(net, train, "
            "held_out); dir(totalcal) lists all there is."
        )
    return _resolve(name) if home is None else getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS]
