"""From the plain settings of a run configuration to data, model and options, and to a trained predictor.

A predictor is trained, or made from nets that other runs have trained.
"""

import inspect
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import totalcal_lab.backbones  # noqa: F401 - it registers the paper's nets
from totalcal.errors import CheckpointError, DamagedCheckpointError, UnknownNameError
from totalcal.functional.cells import CELL_STARTS, UPDATE_RULES
from totalcal.models import TuringProcess, model_named
from totalcal.nets import BACKBONES
from totalcal.parts import AtMeans, IdentityKeys, LogUniformPrior
from totalcal.training import (
    Augmentation,
    Callback,
    Contexts,
    EpochReport,
    Hardware,
    History,
    Optimisation,
    Plan,
    fit,
    load_checkpoint,
    with_context,
)
from totalcal.types import Predictor
from totalcal_lab.backbones.baselines import BASELINES
from totalcal_lab.data.arrays import Scaling
from totalcal_lab.data.domain import TaskData, TaskOptions
from totalcal_lab.data.tasks import task
from totalcal_lab.grid.configuration import RunConfig, derived
from totalcal_lab.records.folders import RunFolder, Timing
from totalcal_lab.records.store import write_lines

_PARTS: Mapping[str, Mapping[str, Callable[[], Any]]] = {
    "key_map": {"identity": IdentityKeys},
    "weight_prior": {"log_uniform": LogUniformPrior},
}
"""Parts of a model by name, made for it; None is the model's own default."""

_MEASURED_ROWS = 200

_FUNCTIONS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "update_rule": UPDATE_RULES,
    "cell_start": CELL_STARTS,
}
"""Functions by name."""


def build_process(config: RunConfig) -> TuringProcess:
    """The untrained model; its first weights are a function of task, model and seed."""
    options = _without_name(config.sections["backbone"])
    model = model_named(config.trained_model)
    classes = len(task(config.task).classes(config.sections["data"]["left_out"]))
    arguments = _arguments(model, _without_name(config.sections["model"]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived("weights", config.task, config.model, config.seed))
        backbone = BACKBONES[config.sections["backbone"]["name"]](num_classes=classes, **options)
        return model(backbone, classes, **arguments)


def load_data(
    config: RunConfig, data_dir: Path | None = None, panel: tuple[str, ...] | None = None
) -> TaskData:
    """The task's data; what is held out depends on task and seed alone, so that baselines can share nets.

    `panel` takes the place of the configuration's own OOD sets.
    """
    options = data_options(config)
    chosen = options if panel is None else replace(options, panel=panel)
    return task(config.task).load(derived("split", config.task, config.seed), data_dir, chosen)


def data_options(config: RunConfig) -> TaskOptions:
    """How much of the data, and in which form."""
    options = dict(config.sections["data"])
    if options["scaling"] is not None:
        options["scaling"] = Scaling(**{name: tuple(values) for name, values in options["scaling"].items()})
    if options["panel"] is not None:
        options["panel"] = tuple(options["panel"])
    if options["left_out"] is not None:
        options["left_out"] = tuple(options["left_out"])
    return TaskOptions(**options)


def training_options(config: RunConfig) -> dict[str, Any]:
    """The groups of choices that `fit` takes; one that makes no sense is refused."""
    return {
        "optimisation": Optimisation(**config.sections["optimisation"]),
        "contexts": Contexts(**config.sections["contexts"]),
        "augmentation": Augmentation(**config.sections["augmentation"]),
        "hardware": Hardware(**config.sections["hardware"]),
    }


def _arguments(model: Callable[..., Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """What plain settings stand for; a function that stays at its default needs no entry in a table."""
    parameters = inspect.signature(model).parameters
    return {
        name: _value(name, value)
        for name, value in settings.items()
        if getattr(parameters[name].default, "__name__", None) != value or value is None
    }


def _value(name: str, value: Any) -> Any:
    if name in _PARTS and value is not None:
        return _named(name, value, _PARTS[name])()
    if name in _FUNCTIONS:
        return _named(name, value, _FUNCTIONS[name])
    return value


def _named(name: str, value: Any, known: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    if value not in known:
        raise UnknownNameError(name, str(value), known)
    return known[value]


def _without_name(section: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in section.items()
        if key != "name"
    }


class EpochClock(Callback):
    """Notes each epoch in the run's folder, for those who watch."""

    def __init__(self, timing: Timing) -> None:
        self.timing = timing

    def started(self, plan: Plan) -> None:
        self.since = time.perf_counter()

    def epoch_ended(self, report: EpochReport) -> None:
        now = time.perf_counter()
        self.timing.note("epoch", epoch=report.epoch, seconds=now - self.since)
        self.since = now


def predictor_of(config: RunConfig, folder: RunFolder, data: TaskData) -> Predictor:
    """What the verdict judges; training goes on where it was stopped, or is over at once."""
    return _assembled(config, _plain_nets(config, folder) or [_trained(config, folder, data)], data)


def restored_predictor(config: RunConfig, folder: RunFolder, data: TaskData) -> Predictor:
    """The same from a finished run, without any training."""
    return _assembled(config, _plain_nets(config, folder) or [trained_process(folder)], data)


def _trained(config: RunConfig, folder: RunFolder, data: TaskData) -> TuringProcess:
    """Fit the configuration's model, with checkpoints and history in its folder.

    Checkpoints of which none is sound are set aside, and the training begins again.
    """
    try:
        process, history = _fitted(config, folder, data)
    except DamagedCheckpointError as damage:
        warnings.warn(f"{damage} It is set aside: {folder.name} is trained from the start.", stacklevel=2)
        folder.set_nets_aside()
        process, history = _fitted(config, folder, data)
    write_lines(folder.history_file, [report._asdict() for report in history.epochs])
    folder.timing.note("trained", seconds=history.seconds)
    return process.cpu().eval()


def _fitted(config: RunConfig, folder: RunFolder, data: TaskData) -> tuple[TuringProcess, History]:
    process = build_process(config)
    return process, fit(
        process,
        data.train,
        **config.sections["training"],
        seed=derived("training", config.task, config.model, config.seed),
        **training_options(config),
        checkpoints=folder.checkpoints,
        callbacks=[EpochClock(folder.timing)],
        progress=False,
    )


def trained_process(folder: RunFolder) -> TuringProcess:
    """The model of a finished run, if its net is the one that the run left.

    Raises:
        CheckpointError: The net was damaged since.
    """
    if damaged := folder.damaged_nets:
        raise CheckpointError(
            f"nothing can be built from the net in {folder.checkpoints}: {damaged[0]} "
            "Give the command that made the run, totalcal-lab run, again: it trains the last epoch again."
        )
    process = build_process(RunConfig.from_json(folder.config))
    process.load_state_dict(load_checkpoint(folder.checkpoints).model)
    return process.eval()


def _plain_nets(config: RunConfig, folder: RunFolder) -> list[TuringProcess]:
    """The nets of other runs that a baseline is made of."""
    return [trained_process(RunFolder(folder.path.parent / need)) for need in config.needs]


def _assembled(config: RunConfig, processes: Sequence[TuringProcess], data: TaskData) -> Predictor:
    if config.model in BASELINES:
        nets = [process.backbone for process in processes]
        return BASELINES[config.model].assemble(nets, tuple(data.held_out.whole()))
    (process,) = processes
    if config.sections["judging"]["weights"] == "mean":
        process.backbone = AtMeans(process.backbone)
    rows = config.sections["judging"]["context"]
    drawn = data.train.take(rows, derived("context", config.task, config.seed))
    predictor = with_context(process, drawn, rows)
    if config.sections["judging"]["draws"] == "auto":  # as a file of this model would answer
        few = data.train.take(_MEASURED_ROWS, derived("draws", config.task, config.seed)).whole().inputs
        process.measure_default_draws(few, getattr(predictor, "context", None))
    return predictor
