"""A run configuration: one model, trained and judged on one task with one seed, every setting spelled out.

Its name is the hash of all of it, and every random number of the run follows from its coordinates.
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import totalcal_lab.backbones  # noqa: F401 - it registers the paper's nets
from totalcal.errors import InputError, UnknownNameError
from totalcal.models import model_named
from totalcal.nets import BACKBONES
from totalcal.training import Contexts, Hardware
from totalcal_lab.grid.presets import Preset

FORMAT = 2
"""Raised when the same configuration means something else than it did.
Other draws of the same quantities, as a new order of random numbers gives, do not raise it."""

Sections = Mapping[str, Mapping[str, Any]]

_NAME = "name"


def folder_name(text: str) -> str:
    """What a run or a job is called: a hash of all that it follows from."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class RunConfig:
    """All that decides the outcome of a run.

    Args:
        task: By name.
        preset: By name.
        model: A model or baseline, by its name in records.
        seed: Of everything random.
        sections: All settings.
        settings: Those that differ from the preset.
        needs: The names of the runs whose nets it is made of.
    """

    task: str
    preset: str
    model: str
    seed: int
    sections: Sections
    settings: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def trained_model(self) -> str:
        """The model of the family that is trained for it: a baseline is made of plain nets."""
        return str(self.sections["model"]["name"])

    @property
    def epochs(self) -> int:
        return int(self.sections["training"]["epochs"])

    @property
    def identity(self) -> dict[str, Any]:
        """What every record of the run begins with."""
        return {
            "task": self.task,
            "preset": self.preset,
            "model": self.model,
            "seed": self.seed,
            "epochs": self.epochs,
            "settings": dict(self.settings),
        }

    @property
    def as_json(self) -> dict[str, Any]:
        """The whole of it as JSON, from which it can be made again."""
        return {
            "format": FORMAT,
            **self.identity,
            "sections": {name: dict(section) for name, section in self.sections.items()},
            "needs": list(self.needs),
        }

    @property
    def name(self) -> str:
        """The hash of the configuration: the run's folder."""
        return folder_name(json.dumps(self.as_json, sort_keys=True))

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "RunConfig":
        return cls(
            content["task"],
            content["preset"],
            content["model"],
            content["seed"],
            content["sections"],
            content["settings"],
            tuple(content["needs"]),
        )


JUDGING = {
    "draws": 10,
    "bins": 15,
    "uncertainty": "entropy",
    "weights": "drawn",
    "context": 50,
    "batch_size": 256,
    "joint_sets": 50,
}
"""How a trained model is judged: by `draws` of everything random, as in the paper, by "moments", or "auto",
as files answer; `weights` are drawn, or their means as in the authors' program."""


def all_settings(model: str, preset: Preset) -> dict[str, dict[str, Any]]:
    """Every argument of the model, of its backbone and of its training, defaults included, as plain JSON."""
    backbone = {**_defaults(BACKBONES[preset.backbone]), **preset.backbone_options}
    sections = {
        "model": {"name": model, **_defaults(model_named(model)), **preset.model_options.get(model, {})},
        "training": {"epochs": preset.epochs, "batch_size": preset.batch_size},
        "optimisation": asdict(preset.optimisation),
        "contexts": asdict(Contexts()),
        "augmentation": asdict(preset.augmentation),
        "hardware": {"precision": Hardware().precision},
        "judging": JUDGING,
        "data": asdict(preset.options),
        "backbone": {"name": preset.backbone, **backbone},
    }
    plain: dict[str, dict[str, Any]] = json.loads(
        json.dumps(sections)
    )  # tuples become lists, once and for all
    return plain


def overridden(sections: Sections, overrides: Mapping[str, Any]) -> tuple[Sections, dict[str, Any]]:
    """The settings with the overrides that apply here, and those of them that change anything.

    A name is `weight_kl_scale`, or `judging.batch_size` where several sections have one: otherwise the first
    of them is meant. What no section has is left alone: another model may have it.
    """
    changed = {name: dict(section) for name, section in sections.items()}
    applied = {}
    for name, value in overrides.items():
        place = _find(changed, name)
        if place is None:
            continue
        section, key = place
        wanted = _fitting(name, value, changed[section][key])
        if wanted != changed[section][key]:
            changed[section][key] = applied[name] = wanted
    return changed, applied


def check_known(overrides: Mapping[str, Any], candidates: list[Sections]) -> None:
    """Every override must mean something to at least one of the configurations."""
    for name in overrides:
        if not any(_find(sections, name) for sections in candidates):
            known = {key for sections in candidates for section in sections.values() for key in section}
            raise UnknownNameError("setting", name, sorted(known - {_NAME}))


def _find(sections: Sections, name: str) -> tuple[str, str] | None:
    """The section and key of a setting; what a model or backbone is called is none."""
    prefix, dot, rest = name.partition(".")
    places = [(prefix, rest)] if dot else [(section, name) for section in sections]
    return next(((s, key) for s, key in places if key != _NAME and key in sections.get(s, {})), None)


def _fitting(name: str, value: Any, default: Any) -> Any:
    """The value in the type of the default, so that 0 and 0.0 are one configuration."""
    if name.rpartition(".")[2] == "draws" and value in ("auto", "moments"):
        return value
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if default is not None and type(value) is not type(default):
        raise InputError(
            f"{name} must be of type {type(default).__name__}, like {default!r}, but is {value!r}."
        )
    return value


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {
        each.name: getattr(each.default, "__name__", each.default)
        for each in parameters
        if each.default is not each.empty
    }


def derived(*coordinates: str | int) -> int:
    """A seed of 63 bits for one purpose at one place of the grid.

    >>> derived("split", "digits", 0) == derived("split", "digits", 0) != derived("split", "digits", 1)
    True
    """
    text = "/".join(map(str, coordinates))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1
