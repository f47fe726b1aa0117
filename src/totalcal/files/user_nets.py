"""A net of the user's own by name, for the command line: `package.module:factory`.

The user names the code; a model file never does.
"""

import os
import sys
from importlib import import_module
from types import ModuleType

from torch import nn

from totalcal.errors import InputError, UnknownNameError
from totalcal.files.saved import Model, load


def load_named(path: str | os.PathLike[str], backbone: str | None = None) -> Model:
    """`load`, with the backbone that a `package.module:factory` makes where one is given."""
    return load(path, backbone=None if backbone is None else made_backbone(backbone))


def made_backbone(name: str) -> nn.Module:
    """What the factory of that name gives, called without arguments; the current folder is on the path.

    Args:
        name: As `package.module:factory`. The factory is a function or a class.

    Returns:
        The net.

    Raises:
        InputError: If there is no such module, it cannot be imported, or what it gives is no net.
        UnknownNameError: If the module has no such factory.

    >>> made_backbone("torch.nn:Identity")
    Identity()
    """
    module_name, _, factory_name = name.partition(":")
    if not module_name or not factory_name:
        raise InputError(f"a backbone is named as package.module:factory, not as {name!r}.")
    module = _imported(module_name)
    if not hasattr(module, factory_name):
        known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise UnknownNameError(f"function or class of {module_name}", factory_name, known)
    factory = getattr(module, factory_name)
    if not callable(factory) or isinstance(factory, nn.Module):
        raise InputError(
            f"{name} must be a function or a class that makes the net, but is a {type(factory).__name__}."
        )
    try:
        net = factory()
    except Exception as error:  # the user's own code
        raise InputError(
            f"{name}() failed ({type(error).__name__}: {error}). It is called without arguments, and must "
            "make the net as it was when the model was saved."
        ) from error
    if not isinstance(net, nn.Module):
        raise InputError(f"{name}() must give a torch.nn.Module, but gives a {type(net).__name__}.")
    return net


def _imported(name: str) -> ModuleType:
    here = os.getcwd()  # noqa: PTH109 - what Python's own path holds
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InputError(
                f"there is no module {error.name}, neither in this folder nor among the installed packages."
            ) from error
        raise InputError(f"the module {name} cannot be imported ({error}).") from error
    except Exception as error:  # the user's own code
        raise InputError(
            f"the module {name} cannot be imported ({type(error).__name__}: {error})."
        ) from error
