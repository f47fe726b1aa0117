"""How a module was made: the name and the arguments of its factory, left on the module by the factory.

A file then names them, and the module is made again from there: no code is in the file. What was set on the
module afterwards is no part of its origin: a file keeps that by itself.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from torch import nn

P = ParamSpec("P")
M = TypeVar("M", bound=nn.Module)

_LONGEST_LIST = 64
_KEPT_AS = "origin"

Structure = tuple[tuple[str, str, tuple[tuple[int, ...], ...], int], ...]
"""Path, class, shapes of the weights and number of hooks of every layer: what no setting changes."""


@dataclass(frozen=True)
class Origin:
    """A factory by name, its arguments, the backbone's own origin, and which layers came out."""

    factory: str
    arguments: Mapping[str, Any]
    backbone: "Origin | None"
    structure: "Structure"


def stamped(factory: Callable[P, M]) -> Callable[P, M]:
    """A factory that leaves its `Origin` on what it makes; the argument `backbone` goes by its own origin.

    Defaults are noted too, so that a later version with others makes the same. Where another argument is a
    module there is no origin: names cannot say it.

    >>> @stamped
    ... def linear(rows, columns=2):
    ...     return nn.Linear(rows, columns)
    >>> origin_of(linear(3)).arguments
    {'columns': 2, 'rows': 3}
    """
    parameters = inspect.signature(factory).parameters
    defaults = {
        name: each.default for name, each in parameters.items() if each.default is not inspect.Parameter.empty
    }

    @functools.wraps(factory)
    def make(*args: P.args, **kwargs: P.kwargs) -> M:
        module = factory(*args, **kwargs)
        given = {**defaults, **dict(zip(parameters, args, strict=False)), **kwargs}
        backbone = given.pop("backbone", None)
        if not any(isinstance(value, nn.Module) for value in given.values()):
            inner = None if backbone is None else origin_of(backbone)
            vars(module)[_KEPT_AS] = Origin(factory.__name__, given, inner, _structure(module))
        return module

    return make


def origin_of(module: nn.Module) -> Origin | None:
    """How a module was made; None where nobody noted it, or where layers or hooks came or went since.

    Hooks in a backbone that a user hands over are the user's: `hooked` names them.
    """
    origin = vars(module).get(_KEPT_AS)
    if not isinstance(origin, Origin) or _differing(origin, module) is None:
        return None
    return None if hooks_since(module) else origin


def hooks_since(module: nn.Module) -> list[str]:
    """The layers that got or lost hooks since the module was made, and that would be made again without."""
    origin = vars(module).get(_KEPT_AS)
    differing = _differing(origin, module) if isinstance(origin, Origin) else None
    is_own = isinstance(origin, Origin) and origin.backbone is None
    return [path for path in differing or () if not (is_own and path.split(".")[0] == "backbone")]


def hooked(module: nn.Module) -> list[str]:
    """The layers with hooks that may change what they do."""
    return [path for path, _, _, hooks in _structure(module) if hooks]


def _differing(origin: Origin, module: nn.Module) -> list[str] | None:
    """The layers with other hooks than when the module was made; None if the layers are others themselves."""
    now = _structure(module)
    if [layer[:3] for layer in now] != [layer[:3] for layer in origin.structure]:
        return None
    return [one[0] for one, other in zip(now, origin.structure, strict=True) if one != other]


def is_plain(value: object) -> bool:
    """Numbers, words, truth values, None, and short lists of them: what JSON keeps, and no code."""
    values = value if isinstance(value, list | tuple) else (value,)
    return len(values) <= _LONGEST_LIST and all(isinstance(each, str | int | float | None) for each in values)


def _structure(module: nn.Module) -> Structure:
    return tuple(
        (
            path,
            type(layer).__qualname__.removeprefix("Quick"),  # a process pools faster, and to the bit the same
            tuple(tuple(weight.shape) for weight in layer.parameters(recurse=False)),
            sum(  # hooks that may change what a layer does: those that a domain memory reads by only look
                not getattr(hook, "only_looks", False)
                for hook in (*layer._forward_hooks.values(), *layer._forward_pre_hooks.values())
            ),
        )
        for path, layer in module.named_modules(remove_duplicate=False)
        if path.split(".")[0] not in ("domain", "calibrator")  # filled later, and kept in files by themselves
    )
