"""What makes two runs the same run: a checkpoint is only taken up by the configuration that wrote it."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from enum import Enum
from typing import Any

import torch
from torch import nn

from totalcal.errors import CheckpointError
from totalcal.training.options import Settings
from totalcal.training.seeds import Purpose, generator_for, reseed
from totalcal.training.sources import Source, fingerprint


def configuration(settings: Settings, model: nn.Module, data: Source, ranks: int) -> dict[str, Any]:
    """Settings, model, data and what else changes the numbers, as plain entries of a checkpoint."""
    order = generator_for(settings.seed, Purpose.ORDER, 0)
    reseed(torch.device("cpu"), order.initial_seed())
    return asdict(settings) | {
        "model": described(model),
        "examples": len(data),
        "data": fingerprint(data, settings.batch_size, order),
        "ranks": ranks,
    }


def described(model: nn.Module) -> dict[str, str]:
    """Every module's kind and plain settings, and every parameter's and buffer's shape, by name."""
    modules = {name or "model": _settings(module) for name, module in model.named_modules()}
    tensors = {name: f"{tuple(value.shape)} {value.dtype}" for name, value in model.state_dict().items()}
    return modules | tensors


def check_same(found: Mapping[str, Any], ours: Mapping[str, Any], folder: object) -> None:
    """Raise if a checkpoint was written by another configuration, and say what differs."""
    differences = list(_differences(found, ours))
    if differences:
        shown = "; ".join(differences[:3]) + ("; …" if len(differences) > 3 else "")
        raise CheckpointError(
            f"the checkpoint in {folder} is of another run: {shown}.\n"
            "  Go back to its settings, or give this run a folder of its own."
        )


def _settings(module: nn.Module) -> str:
    plain = {
        name: text for name, value in vars(module).items() if (text := _plain(value)) and _is_setting(name)
    }
    return f"{type(module).__qualname__}({', '.join(f'{name}={plain[name]}' for name in sorted(plain))})"


def _is_setting(name: str) -> bool:
    return not name.startswith("_") and name not in {"training", "noise"}


def _plain(value: Any) -> str:
    """A setting as text that is the same in every process; empty for what is no setting."""
    if isinstance(value, bool | int | float | str | tuple | list | Enum | None):
        return repr(value)
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    if type(value).__module__.startswith("totalcal.") and hasattr(value, "__dict__"):
        return f"{type(value).__qualname__}({vars(value)})"
    return ""


def _differences(found: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(found.keys() | ours.keys()):
        theirs, mine = found.get(name), ours.get(name)
        if isinstance(theirs, Mapping) and isinstance(mine, Mapping):
            yield from _differences(theirs, mine)
        elif theirs != mine:
            yield f"{name} was {theirs}, now {mine}"
