"""What a model was made of, in plain values: enough to make it again without running foreign code."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Self

from torch import nn

from totalcal.backbones import BACKBONES
from totalcal.errors import InputError, UnknownNameError
from totalcal.models import MODELS
from totalcal.origin import is_plain, origin_of
from totalcal.process import TuringProcess
from totalcal.wrapping import wrap

_MAKERS: Mapping[str, Callable[..., TuringProcess]] = MappingProxyType({**MODELS, "wrap": wrap})


@dataclass(frozen=True)
class Recipe:
    """What makes a model (one of the family, or `wrap`) and its backbone, by name, with keyword arguments.

    Without the name of a backbone the user's own module is handed over whenever a file is loaded.

    >>> Recipe("etp", 3, backbone="mlp", backbone_arguments={"num_inputs": 4}).build().num_classes
    3
    """

    model: str
    num_classes: int
    arguments: Mapping[str, Any] = field(default_factory=dict)
    backbone: str | None = None
    backbone_arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.model not in _MAKERS:
            raise UnknownNameError("model", self.model, _MAKERS)
        if self.backbone is not None and self.backbone not in BACKBONES:
            raise UnknownNameError("backbone", self.backbone, BACKBONES)
        for name, value in {**self.arguments, **self.backbone_arguments}.items():
            if not is_plain(value):
                raise InputError(f"a recipe holds plain values, but {name} is {type(value).__name__}.")

    def build(self, backbone: nn.Module | None = None) -> TuringProcess:
        """The model, with fresh weights; the backbone is the one named, or else the one given."""
        if (backbone is None) == (self.backbone is None):
            raise InputError(
                "this recipe has no backbone of its own: hand yours over, as in `backbone=MyNet()`."
                if backbone is None
                else f"this recipe makes its own backbone, {self.backbone!r}: give none."
            )
        made = self.build_backbone() if backbone is None else backbone
        return _MAKERS[self.model](made, num_classes=self.num_classes, **self.arguments)

    def build_backbone(self) -> nn.Module:
        """The named backbone alone."""
        assert self.backbone is not None
        return BACKBONES[self.backbone](num_classes=self.num_classes, **self.backbone_arguments)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        return cls(**content)


def recipe_of(model: TuringProcess) -> Recipe | None:
    """The recipe of a model of the family; None for one of the user's own parts, or changed by hand since.

    >>> recipe_of(MODELS["edl"](BACKBONES["mlp"](4, 3), 3)).backbone
    'mlp'
    """
    origin = origin_of(model)
    if origin is None or origin.factory not in _MAKERS:
        return None
    named = origin.backbone if origin.backbone and origin.backbone.factory in BACKBONES else None
    return Recipe(
        origin.factory,
        model.num_classes,
        _without_classes(origin.arguments),
        named.factory if named else None,
        _without_classes(named.arguments) if named else {},
    )


def _without_classes(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "num_classes"}
