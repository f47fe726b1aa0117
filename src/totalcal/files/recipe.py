"""How a model was built and how its parts are set, as plain values: enough to rebuild it, and no code.

A recipe names a factory and its arguments; settings are the parts' attributes as they were when the model was
saved. A model with anything that neither can express, such as a function of your own, has no recipe, and the
file says why.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Self

from torch import nn

from totalcal.errors import InputError, ModelFileError, UnknownNameError
from totalcal.functional.cells import CELL_STARTS, UPDATE_RULES
from totalcal.models import MODELS
from totalcal.models.process import TuringProcess
from totalcal.nets import BACKBONES
from totalcal.origin import Origin, is_plain, origin_of
from totalcal.parts.weights import LogUniformPrior, NormalPrior
from totalcal.types import ContextUse, LossWeights

_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType({**UPDATE_RULES, **CELL_STARTS})
_RECORDS: Mapping[str, type[Any]] = MappingProxyType(
    {record.__name__: record for record in (LossWeights, LogUniformPrior, NormalPrior)}
)
"""What a file may name besides plain values: an explicit table, so that no file reaches anything else."""

_DOMAIN = "domain"
_NO_SETTINGS = frozenset({"training", "origin", "is_reused"})

LayerSettings = dict[str, dict[str, Any]]
"""For each layer, by its path, what it is set to."""


@dataclass(frozen=True)
class Recipe:
    """The factory of a model and of its backbone, by name, with arguments.

    Without the name of a backbone, the user passes a module whenever the file is loaded.

    >>> Recipe("etp", 3, backbone="mlp", backbone_arguments={"num_inputs": 4}).build().num_classes
    3
    """

    model: str
    num_classes: int
    arguments: Mapping[str, Any] = field(default_factory=dict)
    backbone: str | None = None
    backbone_arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise UnknownNameError("model", self.model, MODELS)
        if self.backbone is not None and self.backbone not in BACKBONES:
            raise InputError(
                f"this file names the net {self.backbone!r}, which is not registered. Import the package "
                "that registers it, or pass the net: load(path, backbone=net)."
            )
        for name, value in {**self.arguments, **self.backbone_arguments}.items():
            if not _is_expressible(value):
                raise InputError(f"a recipe holds plain values, but {name} is {type(value).__name__}.")

    def build(self, backbone: nn.Module | None = None) -> TuringProcess:
        """The model, with fresh weights; the backbone is the one named, or else the one given."""
        if (backbone is None) == (self.backbone is None):
            raise InputError(
                "this recipe has no backbone of its own: hand yours over, as in `backbone=MyNet()`, or on "
                "the command line --backbone package.module:factory."
                if backbone is None
                else f"this recipe makes its own backbone, {self.backbone!r}: give none."
            )
        if self.backbone is not None:
            backbone = BACKBONES[self.backbone](num_classes=self.num_classes, **self.backbone_arguments)
        return MODELS[self.model](backbone, num_classes=self.num_classes, **self.arguments)

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "num_classes": self.num_classes,
            "arguments": {name: encode(value) for name, value in self.arguments.items()},
            "backbone": self.backbone,
            "backbone_arguments": {name: encode(value) for name, value in self.backbone_arguments.items()},
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        parts = ("arguments", "backbone_arguments")
        decoded = {part: {name: decode(value) for name, value in content[part].items()} for part in parts}
        return cls(**{**content, **decoded})


def recipe_of(model: TuringProcess) -> Recipe | None:
    """The recipe of a model of the family; None where `why_no_recipe` has a reason.

    >>> recipe_of(MODELS["edl"](BACKBONES["mlp"](4, 3), 3)).backbone
    'mlp'
    """
    origin = origin_of(model)
    if origin is None or why_no_recipe(model) is not None:
        return None
    named = _named_backbone(origin)
    return Recipe(
        origin.factory,
        origin.arguments["num_classes"],
        _without_classes(origin.arguments),
        named.factory if named else None,
        _without_classes(named.arguments) if named else {},
    )


def why_no_recipe(model: TuringProcess) -> str | None:
    """What keeps a file from making this model again by itself; None where nothing does.

    >>> model = MODELS["etp"](BACKBONES["mlp"](4, 3), 3)
    >>> model.latent.update_rule = lambda cells, written, retention: cells
    >>> why_no_recipe(model)
    'latent.update_rule is a function that no file can name'
    """
    origin = origin_of(model)
    if origin is None or origin.factory not in MODELS:
        return "it is not as a factory of totalcal made it: it has layers or hooks of your own"
    own_backbone = _named_backbone(origin) is None
    layers = [(path, layer) for path, layer in model.named_modules() if not _within(path, _DOMAIN)]
    arguments = ((f"the argument {name}", value) for name, value in origin.arguments.items())
    attributes = (
        (f"{path}.{name}".lstrip("."), value)
        for path, layer in layers
        if type(layer).__module__.startswith("totalcal.") or not (own_backbone and _within(path, "backbone"))
        for name, value in _attributes(layer)
    )
    for where, value in (*arguments, *attributes):
        if not _is_expressible(value):
            return f"{where} is a {type(value).__name__} that no file can name"
    return None


def settings_of(model: nn.Module) -> LayerSettings:
    """The settings of every layer of this package or of torch; what cannot be expressed is left out.

    A layer of a user's own class is left to the user, who passes it when the file is loaded. A domain memory
    has settings of its own.

    >>> settings_of(MODELS["etp"](BACKBONES["mlp"](4, 3), 3))["latent"]["retention"]
    0.99
    """
    found = {
        path: {name: encode(value) for name, value in _attributes(layer) if _is_expressible(value)}
        for path, layer in model.named_modules()
        if type(layer).__module__.startswith(("totalcal.", "torch.nn.")) and not _within(path, _DOMAIN)
    }
    return {path: values for path, values in found.items() if values}


def restore_settings(model: nn.Module, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Set every layer as it was; a setting that a layer of this package does not know is refused."""
    layers = dict(model.named_modules())
    for path, values in settings.items():
        layer = layers.get(path)
        for name, content in values.items():
            where, value = f"{path}.{name}".lstrip("."), decode(content)
            if layer is not None and _knows(layer, name):
                setattr(layer, name, _alike(getattr(layer, name), value, where))
            elif not _within(path, "backbone"):
                raise ModelFileError(
                    f"it sets {where}, which the model does not have. Upgrade totalcal, or hand over the "
                    "model exactly as it was when it was saved."
                )


def largest_size(settings: Mapping[str, Mapping[str, Any]]) -> int:
    """The largest whole number among settings: a hostile file might ask for as much memory."""
    numbers = [value for values in settings.values() for value in values.values()]
    return max((number for number in numbers if isinstance(number, int)), default=0)


def _attributes(layer: nn.Module) -> Iterator[tuple[str, Any]]:
    """What is set on a layer by name: neither weights nor layers, nor what torch keeps for itself."""
    for name, value in vars(layer).items():
        if not name.startswith("_") and name not in _NO_SETTINGS:
            yield name, value


def _is_expressible(value: object) -> bool:
    named = isinstance(value, ContextUse) or _FUNCTIONS.get(getattr(value, "__name__", "")) is value
    return named or is_plain(value) or _RECORDS.get(type(value).__name__) is type(value)


def encode(value: Any) -> Any:
    """A value as JSON keeps it; `decode` takes it back."""
    if isinstance(value, ContextUse):
        return {"context_use": value.name}
    if callable(value):
        return {"function": value.__name__}
    if type(value) in _RECORDS.values():
        fields = value._asdict() if hasattr(value, "_asdict") else asdict(value)
        return {
            "record": type(value).__name__,
            "values": {name: encode(each) for name, each in fields.items()},
        }
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    return value


def decode(content: Any) -> Any:
    """The argument that a file means: the other way round."""
    match content:
        case {"context_use": str(name)}:
            return ContextUse[name]
        case {"function": str(name)}:
            return _looked_up("function", name, _FUNCTIONS)
        case {"record": str(name), "values": dict(values)}:
            record = _looked_up("record", name, _RECORDS)
            return record(**{each: decode(value) for each, value in values.items()})
        case {"number": str(text)}:
            return float(text)
        case _ if is_plain(content):
            return content
    raise ModelFileError(f"arguments and settings are plain values, but got {str(content)[:40]}.")


def _looked_up(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise UnknownNameError(kind, name, known)
    return known[name]


def _knows(layer: nn.Module, name: str) -> bool:
    at_class = getattr(type(layer), name, None)
    settable = not callable(at_class) and not isinstance(at_class, property)
    return not name.startswith("_") and (name in vars(layer) or (settable and hasattr(type(layer), name)))


def _alike(now: Any, value: Any, where: str) -> Any:
    """The value in the kind that stands there: JSON knows no tuples, and a hostile file any kind."""
    if isinstance(now, tuple) and isinstance(value, list):
        return tuple(value)
    if now is not None and value is not None and _kind(now) != _kind(value):
        raise ModelFileError(
            f"it sets {where}, a {type(now).__name__}, to {str(value)[:40]!r}, a {type(value).__name__}."
        )
    return value


def _kind(value: object) -> object:
    if callable(value):
        return "function"
    if isinstance(value, int | float):
        return "number"
    return "list" if type(value) in (list, tuple) else "prior" if hasattr(value, "kl") else type(value)


def _named_backbone(origin: Origin) -> Origin | None:
    return origin.backbone if origin.backbone and origin.backbone.factory in BACKBONES else None


def _within(path: str, part: str) -> bool:
    return path.split(".")[0] == part


def _without_classes(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "num_classes"}
