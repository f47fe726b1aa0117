"""What a model was made of, in plain values: enough to make it again without running foreign code."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from torch import nn

from totalcal.backbones import BACKBONES
from totalcal.errors import InputError, UnknownNameError
from totalcal.models import model_named
from totalcal.process import TuringProcess

_LONGEST_LIST = 64


@dataclass(frozen=True)
class Recipe:
    """A model by name, its backbone by name, and the keyword arguments of both.

    Without the name of a backbone the user's own module is handed over, now and whenever a file is loaded.

    >>> Recipe("etp", 3, backbone="mlp", backbone_arguments={"num_inputs": 4}).build().num_classes
    3
    """

    model: str
    num_classes: int
    arguments: Mapping[str, Any] = field(default_factory=dict)
    backbone: str | None = None
    backbone_arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model_named(self.model)
        if self.backbone is not None and self.backbone not in BACKBONES:
            raise UnknownNameError("backbone", self.backbone, BACKBONES)
        for name, value in {**self.arguments, **self.backbone_arguments}.items():
            _check_plain(name, value)

    def build(self, backbone: nn.Module | None = None) -> TuringProcess:
        """The model, with fresh weights; the backbone is the one named, or else the one given."""
        if (backbone is None) == (self.backbone is None):
            raise InputError(
                "this recipe has no backbone of its own: hand yours over, as in `backbone=MyNet()`."
                if backbone is None
                else f"this recipe makes its own backbone, {self.backbone!r}: give none."
            )
        made = self.build_backbone() if backbone is None else backbone
        return model_named(self.model)(made, self.num_classes, **self.arguments)

    def build_backbone(self) -> nn.Module:
        """The named backbone alone."""
        assert self.backbone is not None
        return BACKBONES[self.backbone](num_classes=self.num_classes, **self.backbone_arguments)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        return cls(**content)


def _check_plain(name: str, value: object) -> None:
    """Numbers, words, truth values, None, and short lists of them: what JSON keeps, and no code."""
    values = value if isinstance(value, list | tuple) else (value,)
    if len(values) > _LONGEST_LIST or not all(isinstance(v, str | int | float | None) for v in values):
        raise InputError(
            f"a recipe holds plain values, but {name} is {type(value).__name__}. "
            "Leave the recipe out, and hand the whole model over when you load: load(path, model=…)."
        )
