"""`fit`: training for real work, on Lightning Fabric, that survives being killed."""

from collections.abc import Sequence
from pathlib import Path

from totalcal.errors import InputError
from totalcal.process import TuringProcess
from totalcal.training.callbacks import Callback
from totalcal.training.configuration import configuration
from totalcal.training.denormals import flushed_denormals
from totalcal.training.frozen import behind_backbone, embedded
from totalcal.training.history import History
from totalcal.training.keeper import Keeper, NoKeeper
from totalcal.training.options import (
    ADAM,
    ONE_DEVICE,
    PAPER_CONTEXTS,
    Contexts,
    Hardware,
    Optimisation,
    Settings,
)
from totalcal.training.progress import ProgressBar, is_wanted
from totalcal.training.run import Run
from totalcal.training.seeds import borrowed_generators
from totalcal.training.sources import Data, LoaderSource, as_source


def fit(
    model: TuringProcess,
    data: Data,
    *,
    epochs: int,
    batch_size: int = 128,
    seed: int = 0,
    optimisation: Optimisation = ADAM,
    contexts: Contexts = PAPER_CONTEXTS,
    validation: Data | None = None,
    patience: int | None = None,
    freeze_backbone: bool = False,
    checkpoints: str | Path | None = None,
    checkpoint_steps: int | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    hardware: Hardware = ONE_DEVICE,
) -> History:
    """Minimise the free energy of a model on labelled data; the model is trained in place.

    `data` and `validation` are (inputs, labels), a torch Dataset or DataLoader, or anything with `batches`.
    `batch_size` rows make a step, on all devices together. With `patience` the run stops when the validation
    NLL has not fallen for so many epochs, and the model is that of the best epoch. `freeze_backbone` computes
    the backbone's outputs once and trains what stands behind it. A run with a folder for `checkpoints` saves
    itself there each epoch (and every `checkpoint_steps` steps); called again, it goes on from there and ends
    with the same bits as a run that was never stopped. `progress` is shown on a terminal, unless told.

    >>> import torch
    >>> from totalcal import etp, fit
    >>> inputs, labels = torch.randn(64, 2), torch.randint(3, (64,))
    >>> history = fit(etp(torch.nn.Linear(2, 3), num_classes=3), (inputs, labels), epochs=2)
    >>> [report.epoch for report in history.epochs]
    [0, 1]
    """
    settings = Settings(epochs, batch_size, seed, optimisation, contexts, patience, hardware.precision)
    _check(settings, validation is not None)
    source, held_out = as_source(data), None if validation is None else as_source(validation)
    fabric = hardware.launch()
    if fabric.world_size > 1 and isinstance(source, LoaderSource):
        raise InputError("a DataLoader shuffles for itself on every rank. Give its data set, and batch_size.")
    with borrowed_generators(fabric.device), flushed_denormals():
        trained = model
        if freeze_backbone:
            trained, device = behind_backbone(model), fabric.device
            source = embedded(model.to(device), source, device)
            held_out = None if held_out is None else embedded(model, held_out, device)
        run = Run(settings, trained, model, source, held_out, fabric)
        keeper: Keeper | NoKeeper = NoKeeper()
        if checkpoints is not None:
            entries = configuration(settings, model, source, fabric.world_size)
            keeper = Keeper(Path(checkpoints), checkpoint_steps, entries, fabric)
        bar = [ProgressBar()] if is_wanted(progress) and fabric.is_global_zero else []
        return run.finish(keeper, [*bar, *callbacks])


def _check(settings: Settings, has_validation: bool) -> None:
    if settings.epochs < 1 or settings.batch_size < 1:
        raise InputError(
            f"a run needs epochs ≥ 1 and batch_size ≥ 1, but got {settings.epochs} and {settings.batch_size}."
        )
    if settings.patience is not None and not has_validation:
        raise InputError("patience is about the validation NLL, but there is no validation data. Give both.")
