"""`fit`: training on Lightning Fabric, with validation, checkpoints and resumption."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from totalcal.calibration.calibrator import NoCalibrator, fit_calibrator
from totalcal.errors import InputError
from totalcal.inputs import Inputs, call, checked_inputs, in_precision_of, laid_out, layout_for, moved
from totalcal.models.process import TuringProcess
from totalcal.parts.sampling import MEANS, sampling, stochastic_layers
from totalcal.training.batches import (
    Purpose,
    borrowed_generators,
    derived_seed,
    epoch_batches,
    generator_for,
    reseed,
)
from totalcal.training.callbacks import Callback, ProgressBar, is_wanted
from totalcal.training.checkpoint import Checkpointer, configuration
from totalcal.training.history import History, context_for, validation_nll
from totalcal.training.loop import ForwardPass, Step, Trainer, flushed_denormals
from totalcal.training.optimizers import PlannedSchedule, build_optimizer, may_fuse
from totalcal.training.options import (
    ADAM,
    HALF,
    NO_AUGMENTATION,
    ONE_DEVICE,
    PAPER_CONTEXTS,
    Augmentation,
    Contexts,
    Distillation,
    Hardware,
    Optimisation,
    RunSettings,
)
from totalcal.training.sources import (
    Data,
    LoaderSource,
    Source,
    TensorSource,
    as_source,
    labelled_batch,
    steps_per_epoch,
)
from totalcal.training.targets import BatchTransform
from totalcal.types import Batch, Predictor

_SHOWN = 6
_ROWS_TO_MEASURE = 200
_ROWS_TO_CALIBRATE = 5_000
_ROWS_AT_ONCE = 250


def fit(
    model: TuringProcess,
    data: Data,
    *,
    epochs: int,
    batch_size: int = 128,
    seed: int = 0,
    optimisation: Optimisation = ADAM,
    contexts: Contexts = PAPER_CONTEXTS,
    augmentation: Augmentation = NO_AUGMENTATION,
    teacher: Predictor | None = None,
    distillation: Distillation = HALF,
    validation: Data | None = None,
    patience: int | None = None,
    calibrate: bool = True,
    freeze_backbone: bool = False,
    checkpoints: str | Path | None = None,
    checkpoint_steps: int | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    hardware: Hardware = ONE_DEVICE,
) -> History:
    """Minimise the free energy of a model on labelled data; the model is trained in place.

    The same seed gives the same bits on the same machine. A run with a folder for `checkpoints` saves itself
    there; called again, it goes on from there and ends with the same bits as a run that was never stopped.

    Args:
        model: Any model of the family; it is left in evaluation mode.
        data: (inputs, labels), a mapping with `labels`, a torch Dataset or DataLoader, a list of batches, or
            anything with `batches`; inputs of any kind (`totalcal.inputs`). With a DataLoader the number of
            examples is what its sampler gives per epoch; a stream without a length is read once to count it.
        epochs: How often the data is seen, at most.
        batch_size: Rows per gradient step, on all devices together. A DataLoader keeps its own.
        seed: Everything random in the run is a function of it.
        optimisation: Optimiser, learning rate, schedule, weight decay, gradient clipping, averaged weights,
            label smoothing.
        contexts: How many rows of a batch are its context, and when the memory takes them in.
        augmentation: Random changes to the inputs of each batch, and mixup.
        teacher: A predictor to learn from, such as an ensemble: its mean, and its spread too if the model has
            beliefs that are Dirichlet distributions. It must be on the run's device.
        distillation: The teacher's share of the loss.
        validation: Data to measure the NLL of the predictive distribution on, after each epoch.
        patience: Stop when the validation NLL has not fallen for so many epochs, with the model of the best
            epoch.
        calibrate: End with a temperature fitted on the validation data, and a bias per class where
            cross-validation finds it worth it.
        freeze_backbone: Compute the backbone's outputs once and train what stands behind it, and a last layer
            that draws its weights (`layers="*.classifier"`).
        checkpoints: The folder of the run: it saves itself there after each epoch. The data is read through
            once more at the start, so that a run is not resumed on other data.
        checkpoint_steps: Save every so many steps, too.
        callbacks: Called after each step and epoch (`totalcal.training.Callback`).
        progress: Whether to show a progress bar; by default on a terminal only.
        hardware: Devices, strategy and precision, as Lightning Fabric names them.

    Returns:
        A report and a time for each epoch.

    Raises:
        InputError: If the data, or a setting, cannot be used.
        LabelError: If a label is not a class.
        DivergenceError: If the loss, a weight or a memory cell ceases to be finite.
        CheckpointError: If the folder holds the checkpoint of another run.

    Example:
        >>> import torch
        >>> from totalcal import etp, fit
        >>> inputs, labels = torch.randn(64, 2), torch.randint(3, (64,))
        >>> history = fit(etp(torch.nn.Linear(2, 3), num_classes=3), (inputs, labels), epochs=2)
        >>> [report.epoch for report in history.epochs]
        [0, 1]
    """
    settings = RunSettings(
        epochs,
        batch_size,
        seed,
        optimisation,
        contexts,
        patience,
        hardware.precision,
        augmentation,
        distillation=None if teacher is None else distillation,
    )
    _check(settings, validation is not None, freeze_backbone)
    source, held_out = as_source(data), None if validation is None else as_source(validation)
    model.calibrator = NoCalibrator()  # one that it has knows the net as it was
    fabric = hardware.launch()
    if fabric.world_size > 1 and isinstance(source, LoaderSource):
        raise InputError("a DataLoader shuffles for itself on every rank. Give its data set, and batch_size.")
    with borrowed_generators(fabric.device), flushed_denormals():
        trained, whole_rows = model, source
        if freeze_backbone:
            trained, device = behind_backbone(model), fabric.device
            reseed(device, derived_seed(seed, Purpose.LOADER))
            source = embedded(model.to(device), source, device)
            held_out = None if held_out is None else embedded(model, held_out, device)
        transform = BatchTransform(settings, teacher, fabric.device, fabric.global_rank)
        steps = steps_per_epoch(source, batch_size)
        layout = layout_for(trained)
        trained.to(memory_format=layout)  # type: ignore[call-overload]
        forward = fabric.setup_module(ForwardPass(trained, contexts.write))
        bare = build_optimizer(
            trained, optimisation, may_fuse(fabric.device, hardware.precision, optimisation)
        )
        schedule = PlannedSchedule(bare, optimisation, epochs, steps)
        optimizer: Any = fabric.setup_optimizers(bare)
        trainer = Trainer(
            trained,
            optimizer,
            len(source),
            forward=forward,
            whole=model,
            schedule=schedule,
            average=optimisation.average,
            patience=patience,
            backward=fabric.backward,
            clip=None
            if optimisation.clip is None
            else partial(fabric.clip_gradients, forward, optimizer, max_norm=optimisation.clip),
        )

        def steps_of(epoch: int, done: int) -> Iterator[Step]:
            place = fabric.device, fabric.global_rank, fabric.world_size
            drawn = epoch_batches(source, settings, epoch, done, *place)
            for step, (batch, context) in enumerate(drawn, start=done):
                batch, targets = transform(batch, epoch, step)
                batch = batch._replace(inputs=laid_out(batch.inputs, layout))
                yield Step(batch, context, None if targets is None else targets.loss)

        def validate(epoch: int) -> float | None:
            """The same on every rank, so that all of them stop together."""
            if held_out is None:
                return None
            rows = generator_for(seed, Purpose.VALIDATION)
            reseed(fabric.device, rows.initial_seed())
            context = context_for(trained, source, contexts.limit, rows, fabric.device)
            reseed(fabric.device, derived_seed(seed, Purpose.VALIDATION, epoch))
            return float(fabric.broadcast(validation_nll(trained, held_out, context, fabric.device)))

        checkpointer = None
        if checkpoints is not None:
            entries = configuration(settings, model, source, fabric.world_size)
            if teacher is not None:
                entries["teacher"] = transform.teacher_fingerprint(source, batch_size)
            checkpointer = Checkpointer(Path(checkpoints), checkpoint_steps, entries, fabric, schedule)
        bar = [ProgressBar()] if is_wanted(progress) and fabric.is_global_zero else []
        with nullcontext() if checkpointer is None else checkpointer.held():
            history = trainer.run(
                steps_of,
                epochs,
                steps_per_epoch=steps,
                validate=validate,
                reduce=fabric.all_reduce,  # type: ignore[arg-type]
                callbacks=[*bar, *callbacks],
                checkpointer=checkpointer,
            )
        context = context_for(model, whole_rows, contexts.limit, device=fabric.device)
        if stochastic_layers(model.backbone) or model.latent.width:
            rows = labelled_batch(next(iter(whole_rows.batches(_ROWS_TO_MEASURE)))).inputs
            model.measure_default_draws(rows, context)
        if calibrate and validation is not None:
            _calibrate(model, as_source(validation), context, fabric.device, seed)
        return history


@torch.no_grad()
def _calibrate(
    model: TuringProcess, rows: Source, context: Batch | None, device: torch.device, seed: int
) -> None:
    """The calibrator, fitted on the first rows that the model was not
    trained on; more of them would tell it nothing new."""
    beliefs, labels = [], []
    for inputs, truth in map(labelled_batch, rows.batches(_ROWS_AT_ONCE)):
        beliefs.append(model.predict(moved(inputs, device), context=context).belief.log_mean.cpu())
        labels.append(truth.cpu())
        if sum(map(len, labels)) >= _ROWS_TO_CALIBRATE:
            break
    found = fit_calibrator(torch.cat(beliefs, 1), torch.cat(labels), seed=seed)
    model.calibrator = found.calibrator.to(device)


def _check(settings: RunSettings, has_validation: bool, freeze_backbone: bool) -> None:
    if settings.epochs < 1 or settings.batch_size < 1:
        raise InputError(
            f"a run needs epochs ≥ 1 and batch_size ≥ 1, but got {settings.epochs} and {settings.batch_size}."
        )
    if settings.patience is not None and not has_validation:
        raise InputError("patience is about the validation NLL, but there is no validation data. Give both.")
    if settings.patience is not None and settings.patience < 1:
        raise InputError(f"patience is a number of epochs, 1 or more, but is {settings.patience}.")
    if freeze_backbone and (settings.augmentation.is_for_images or settings.distillation):
        raise InputError(
            "a frozen backbone sees every row once, before training: there are no images left to augment, "
            "and none for a teacher to look at. Train all of the model, or drop augmentation and teacher."
        )


def behind_backbone(model: TuringProcess) -> TuringProcess:
    """The latent and the head of a model, shared with it, as a process on embeddings.

    A last layer that draws its weights is trained with them: the process then is one on its inputs.
    """
    drawing = stochastic_layers(model.backbone)
    if len(drawing) > 1:
        names = [name for name, part in model.backbone.named_modules() if any(part is one for one in drawing)]
        shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 1], "…", names[-1]]
        raise InputError(
            f"of a frozen backbone the last layer alone may draw its weights, but {len(drawing)} layers of "
            f'this one do: {", ".join(shown)}. Make the model with layers="none" or with the name of the '
            'last, e.g. layers="*.classifier", or train all of it.'
        )
    process = TuringProcess(nn.Identity(), model.latent, model.head, model.num_classes, model.loss_weights)
    if drawing:
        process.backbone = drawing[0]  # itself, not a copy
    if not any(weight.requires_grad for weight in process.parameters()):
        raise InputError(
            "with a frozen backbone there is nothing left to train: this model has no weights behind it. "
            "Train all of it, or take a model with a memory or an evidence map, such as etp."
        )
    return process


@torch.no_grad()
def embedded(model: TuringProcess, source: Source, device: torch.device) -> TensorSource:
    """What the frozen part of a backbone gives for all rows, in evaluation mode, held in memory."""
    model.eval()
    rows = [
        (_frozen_output(model.backbone, moved(inputs, device)).cpu(), labels.cpu())
        for inputs, labels in map(labelled_batch, source.batches(256))
    ]
    embeddings, labels = zip(*rows, strict=True)
    return TensorSource(torch.cat(embeddings), torch.cat(labels))


def _frozen_output(backbone: nn.Module, inputs: Inputs) -> Tensor:
    """The output, or the input of the last layer where that one draws its weights."""
    rows, seen = in_precision_of(backbone, checked_inputs(inputs)), list[Tensor]()
    drawing = stochastic_layers(backbone)
    hooks = [layer.register_forward_pre_hook(lambda _, given: seen.append(given[0])) for layer in drawing]
    try:
        with sampling(MEANS):
            output = call(backbone, rows)
            if not drawing:
                return output
            if len(seen) == 1 and torch.equal(drawing[0](seen[0]), output):
                return seen[0]
    finally:
        for hook in hooks:
            hook.remove()
    raise InputError(
        "the layer of this frozen backbone that draws its weights is not its last: its output is not the "
        'backbone\'s. Name the last one, e.g. layers="*.classifier", or train all of it.'
    )
