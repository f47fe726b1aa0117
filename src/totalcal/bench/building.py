"""From a cell's plain settings to the things they stand for: data, model, options of training."""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from totalcal.backbones import BACKBONES
from totalcal.bench.cell import Cell
from totalcal.bench.seeds import derived
from totalcal.data.batches import Scaling
from totalcal.data.domain import TaskData, TaskOptions
from totalcal.data.tasks import task
from totalcal.errors import UnknownNameError
from totalcal.models import model_named
from totalcal.parts.evidence import ResidualEvidence
from totalcal.parts.latents.memory import IdentityKeys
from totalcal.parts.weights import LogUniformPrior
from totalcal.process import TuringProcess
from totalcal.types import Batch

_PARTS: Mapping[str, Mapping[str, Callable[[], Any]]] = {
    "key_map": {"identity": IdentityKeys},
    "evidence_map": {"residual": ResidualEvidence},
    "weight_prior": {"log_uniform": LogUniformPrior},
}
"""Parts of a model by name; None is the model's own default."""


def build_process(cell: Cell) -> TuringProcess:
    """The untrained model; its first weights are a function of task, model and seed."""
    options = _without_name(cell.sections["backbone"])
    model = model_named(cell.net)
    classes = len(task(cell.task).classes(cell.sections["data"].get("left_out")))
    plain = _without_name(cell.sections["model"])
    arguments = {name: _argument(model, name, value) for name, value in plain.items()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived("weights", cell.task, cell.model, cell.seed))
        backbone = BACKBONES[cell.sections["backbone"]["name"]](num_classes=classes, **options)
        return model(backbone, classes, **arguments)


def load_data(cell: Cell, data_dir: Path | None = None, panel: tuple[str, ...] | None = None) -> TaskData:
    """The task's data; what is held out depends on task and seed alone, so that rivals can share nets.

    `panel` takes the place of the cell's own out-of-domain sets.
    """
    options = data_options(cell)
    chosen = options if panel is None else replace(options, panel=panel)
    return task(cell.task).load(derived("split", cell.task, cell.seed), data_dir, chosen)


def data_options(cell: Cell) -> TaskOptions:
    """How much of the data, and in which form."""
    options = dict(cell.sections["data"])
    if options["scaling"] is not None:
        options["scaling"] = Scaling(**{name: tuple(values) for name, values in options["scaling"].items()})
    if options["panel"] is not None:
        options["panel"] = tuple(options["panel"])
    if options.get("left_out") is not None:  # configurations of before have no such setting
        options["left_out"] = tuple(options["left_out"])
    return TaskOptions(**options)


def draw_context(cell: Cell, data: TaskData) -> Batch:
    """Training rows for a model that predicts from a context."""
    rows = cell.sections["judging"]["context"]
    seed = derived("context", cell.task, cell.seed)
    return data.train.take(rows, seed).whole()


def _argument(model: Callable[..., Any], name: str, value: Any) -> Any:
    """What a plain setting stands for: a part by name, a function by name among the default's siblings."""
    if name in _PARTS and value is not None:
        if value not in _PARTS[name]:
            raise UnknownNameError(name, str(value), _PARTS[name])
        return _PARTS[name][value]()
    default = inspect.signature(model).parameters[name].default
    return _sibling(default, value) if inspect.isfunction(default) else value


def _sibling(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    home = function.__module__
    known = {
        each: value
        for each, value in vars(sys.modules[home]).items()
        if inspect.isfunction(value) and value.__module__ == home
    }
    if name not in known:
        raise UnknownNameError(home.rpartition(".")[2], name, known)
    return known[name]


def _without_name(section: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in section.items()
        if key != "name"
    }
