"""Calibrate at the end of somebody else's training: callbacks for Lightning and for Hugging Face's Trainer.

People keep their module and their loop; the figures go through the trainer's own loggers. Neither library is
imported before one of its callbacks is made.
"""

import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn
from torch.utils.data import DataLoader

from totalcal.calibration.calibrate import calibrate
from totalcal.errors import InputError
from totalcal.files.saved import Model
from totalcal.inputs import Labelled, labelled
from totalcal.report.model_page import ModelReport
from totalcal.training.sources import Data


class CalibrationCallback:
    """What both callbacks have: `model` after the training, and `report` if there were test rows.

    Attributes:
        model: What `totalcal.calibrate` gave; None before the end of the training.
        report: What `model.report(test, ood)` gave; None without test rows.
    """

    def __init__(
        self,
        train: Data | None,
        held_out: Data | str | None,
        test: Any,
        ood: Mapping[str, Any] | None,
        net: str,
        options: Mapping[str, Any],
    ) -> None:
        self.train, self.held_out, self.test, self.ood = train, held_out, test, ood
        self.net, self.options = net, options
        self.model: Model | None = None
        self.report: ModelReport | None = None

    def calibrated(self, module: nn.Module, train: Any, held_out: Any) -> dict[str, float]:
        """Calibrate a part of the trained module: the figures before and after."""
        self.model = calibrate(module.get_submodule(self.net), train, held_out, **self.options)
        assert self.model.summary is not None
        sides = {"_before": self.model.summary.before, "": self.model.summary.after}
        found = {
            f"totalcal/{name}{side}": value for side, told in sides.items() for name, value in told.items()
        }
        if self.test is not None:
            self.report = self.model.report(self.test, self.ood)
            for name, (before, after) in self.report.figures.items():
                found |= {f"totalcal/test {name}, as trained": before, f"totalcal/test {name}": after}
        return found


def lightning_callback(
    train: Data | None = None,
    held_out: Data | None = None,
    *,
    test: Any = None,
    ood: Mapping[str, Any] | None = None,
    net: str = "",
    **options: Any,
) -> Any:
    """A Lightning callback that calibrates the module when its training ends, and logs what that gained.

    Args:
        train: The rows it is trained on; the trainer's own loader, unless given.
        held_out: Rows it is not trained on; the trainer's validation loader, unless given. Rows by which
            weights were chosen make the figures somewhat too rosy.
        test: Rows for a report, as `Model.report` takes them: its figures are logged as well.
        ood: Out-of-distribution sets for the report, by name.
        net: The part of the module that gives logits, by name as in `named_modules()`; all of it, by default.
        options: Further arguments of `totalcal.calibrate`, such as `classes`.

    Returns:
        The callback, a `CalibrationCallback`: after the training it has the calibrated `model`.

    Example:
        `Trainer(callbacks=[calibration := lightning_callback()])`, and after `fit`, `calibration.model`.
    """
    package = "lightning.pytorch" if "lightning.pytorch" in sys.modules else "pytorch_lightning"
    base = importlib.import_module(package).Callback
    made = type("LightningCalibration", (_OfLightning, base), {})
    return made(train, held_out, test, ood, net, {"progress": False, **options})


class _OfLightning(CalibrationCallback):
    def on_train_start(self, trainer: Any, module: nn.Module) -> None:
        if self.held_out is None and _one_of(trainer.val_dataloaders) is None:
            raise InputError(
                "this trainer has no validation loader: give lightning_callback(held_out=…), rows that the "
                "module is not trained on."
            )

    def on_train_end(self, trainer: Any, module: nn.Module) -> None:
        train = trainer.train_dataloader if self.train is None else self.train
        held_out = _one_of(trainer.val_dataloaders) if self.held_out is None else self.held_out
        figures = self.calibrated(module, train, held_out)
        for logger in trainer.loggers:
            logger.log_metrics(figures, step=trainer.global_step)


def _one_of(loaders: Any) -> Any:
    """Lightning has one loader, or a list of them."""
    return loaders[0] if isinstance(loaders, list) and loaders else loaders


def transformers_callback(
    trainer: Any,
    train: Data | None = None,
    held_out: Data | str | None = None,
    *,
    test: Any = None,
    ood: Mapping[str, Any] | None = None,
    net: str = "",
    **options: Any,
) -> Any:
    """A `TrainerCallback` that calibrates the model when its training ends, and logs what that gained.

    Args:
        trainer: The Trainer, whose `log` it calls.
        train: The rows it is trained on; the trainer's `train_dataset`, unless given.
        held_out: Rows it is not trained on; the trainer's `eval_dataset`, unless given, or one of its sets by
            name. Data sets are put together by the trainer's collator; texts are padded to the longest.
        test: As in `lightning_callback`.
        ood: As in `lightning_callback`.
        net: As in `lightning_callback`.
        options: Further arguments of `totalcal.calibrate`, such as `classes`.

    Returns:
        The callback, a `CalibrationCallback`: after the training it has the calibrated `model`.

    Example:
        `trainer.add_callback(calibration := transformers_callback(trainer))`, and after `trainer.train()`,
        `calibration.model`.
    """
    base = importlib.import_module("transformers").TrainerCallback
    made = type("TransformersCalibration", (_OfTransformers, base), {})
    found = made(train, held_out, test, ood, net, {"progress": False, **options})
    found.trainer = trainer
    return found


class _OfTransformers(CalibrationCallback):
    trainer: Any

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        known = self.trainer.eval_dataset
        if self.held_out is None and known is None:
            raise InputError(
                "this trainer has no eval_dataset: give transformers_callback(trainer, held_out=…), rows "
                "that the model is not trained on."
            )
        if self.held_out is None and isinstance(known, Mapping):
            raise InputError(
                f"this trainer has several sets in eval_dataset: {', '.join(known)}. Name one, "
                "transformers_callback(trainer, held_out=…)."
            )

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        train = self._collated(self.train, self.trainer.get_train_dataloader)
        held_out = self._collated(self.held_out, self.trainer.get_eval_dataloader)
        if isinstance(held_out, _Collated):
            held_out = next(held_out.batches(len(held_out)))
        self.trainer.log(self.calibrated(model, train, held_out))

    def _collated(self, given: Any, of_trainer: Any) -> Any:
        """The trainer's own rows, a data set, or one of `eval_dataset` by name, as the trainer collates."""
        if given is None:
            return _Collated(of_trainer())
        if isinstance(given, tuple | list | Mapping | DataLoader) or hasattr(given, "batches"):
            return given
        return _Collated(self.trainer.get_eval_dataloader(given))


class _Collated:
    """The rows of a loader in their own order, put together as the loader does."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.dataset: Any = loader.dataset
        self.collate = loader.collate_fn

    def __len__(self) -> int:
        return len(self.dataset)

    def batches(self, batch_size: int, generator: Any = None) -> Iterator[Labelled]:
        for start in range(0, len(self), batch_size):
            places = range(start, min(start + batch_size, len(self)))
            yield labelled(self.collate([self.dataset[place] for place in places]))
