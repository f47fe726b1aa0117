"""Augmentation, mixup, label smoothing and distillation: what a batch becomes before its loss.

Every draw is made on the CPU from the generator given, so that it is the same on any device.
"""

from typing import NamedTuple

import numpy
import torch
from torch import Generator, Tensor

from totalcal.errors import InputError
from totalcal.functional import dirichlet
from totalcal.inputs import Inputs, mapped, moved, tensors
from totalcal.parts.heads import Head, SquaredErrorHead
from totalcal.training.batches import Purpose, generator_for, reseed
from totalcal.training.options import NO_AUGMENTATION, Augmentation, RunSettings
from totalcal.training.sources import Source, labelled_batch
from totalcal.types import Batch, Belief, Dirichlet, Predictive, Predictor


class Mixture(NamedTuple):
    """The labels of the rows that were mixed in, and the share that they have, at most a half."""

    labels: Tensor
    share: float


def augmented(inputs: Inputs, options: Augmentation, generator: Generator) -> Inputs:
    """All that the options ask for but `mixup`, image by image."""
    if not options.is_for_images:
        return inputs
    if not (isinstance(inputs, Tensor) and inputs.dim() == 4 and inputs.is_floating_point()):
        raise InputError(
            "shifts, flips, cutout, brightness and contrast are for one tensor of floating images, batch × "
            "channels × height × width, which these inputs are not. Use Augmentation(mixup=…), or none."
        )
    images = inputs
    if options.shifts or options.flips:
        images = shifted_and_flipped(images, options.shifts, options.flips, generator)
    if options.brightness or options.contrast:
        images = jittered(images, options.brightness, options.contrast, generator)
    if options.cutout:
        images = cut_out(images, options.cutout, generator)
    return images


def shifted_and_flipped(images: Tensor, shifts: int, flips: bool, generator: Generator) -> Tensor:
    """Images moved by up to `shifts` pixels along both axes, their edges continued; half of them mirrored."""
    batch, _, height, width = images.shape
    down, right = torch.randint(-shifts, shifts + 1, (2, batch, 1), generator=generator)
    columns = torch.arange(width).expand(batch, width)
    if flips:
        mirrored = torch.rand(batch, 1, generator=generator) < 0.5
        columns = torch.where(mirrored, columns.flip(1), columns)
    rows = (torch.arange(height) - down).clamp(0, height - 1).to(images.device)  # [batch, height]
    columns = (columns - right).clamp(0, width - 1).to(images.device)  # [batch, width]
    each = torch.arange(batch, device=images.device)[:, None, None]
    return images[each, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)  # channels last


def jittered(images: Tensor, brightness: float, contrast: float, generator: Generator) -> Tensor:
    """mean + c (x − mean) + b for each image, b uniform in ± brightness and c in 1 ± contrast."""
    drawn = 2 * torch.rand(2, len(images), 1, 1, 1, generator=generator).to(images) - 1
    added, factor = brightness * drawn[0], 1 + contrast * drawn[1]
    mean = images.mean((1, 2, 3), keepdim=True)
    return torch.addcmul(mean * (1 - factor) + added, images, factor)


def cut_out(images: Tensor, side: int, generator: Generator) -> Tensor:
    """A square around a pixel of each image holds the image's mean; what would lie outside is cut off."""
    batch, _, height, width = images.shape
    rows = _covered(height, side, batch, generator)[:, None, :, None]
    columns = _covered(width, side, batch, generator)[:, None, None, :]
    covered = (rows & columns).to(images.device)
    return torch.where(covered, images.mean((1, 2, 3), keepdim=True), images)


def _covered(size: int, side: int, batch: int, generator: Generator) -> Tensor:
    """Which of `size` places lie in a stretch of `side` around a random one, batch × size."""
    centre = torch.randint(size, (batch, 1), generator=generator)
    place = torch.arange(size) - centre + side // 2
    return (place >= 0) & (place < side)


def mixup(inputs: Inputs, labels: Tensor, parameter: float, generator: Generator) -> tuple[Inputs, Mixture]:
    """Every row with a share of another one: the same share in all, drawn from Beta and at most a half."""
    if not all(tensor.is_floating_point() for tensor in tensors(inputs)):
        raise InputError("rows of whole numbers, such as tokens, cannot be mixed. Use mixup=0.")
    drawn = float(numpy.random.default_rng(generator.initial_seed()).beta(parameter, parameter))
    share = min(drawn, 1 - drawn)
    others = torch.randperm(len(labels), generator=generator).to(labels.device)
    return mapped(lambda rows: rows.lerp(rows[others], share), inputs), Mixture(labels[others], share)


class SoftTargets:
    """The loss of a batch whose targets are soft, in the place of the head's own.

    Args:
        mixture: Labels of rows that were mixed in: the loss is mixed in the same shares.
        smoothing: The share of every label that all classes have in common.
        teacher: A teacher's beliefs about the rows, as log-concentrations of Dirichlet distributions.
        teacher_weight: The teacher's share of the loss.
    """

    def __init__(
        self,
        mixture: Mixture | None = None,
        smoothing: float = 0.0,
        teacher: Tensor | None = None,
        teacher_weight: float = 0.0,
    ) -> None:
        self.mixture, self.smoothing = mixture, smoothing
        self.teacher, self.teacher_weight = teacher, teacher_weight

    def loss(self, head: Head, embedding: Tensor, readout: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """As `Head.loss`: means over rows of the expected NLL of what is to be learnt, and of the local KL.

        A latent may keep the first rows of a batch for itself: the rows of the loss are its last.
        """
        nll, local_kl = head.loss(embedding, readout, labels)
        if self.mixture is not None:
            others = head.loss(embedding, readout, self.mixture.labels[-len(labels) :])
            nll = torch.lerp(nll, others[0], self.mixture.share)
            local_kl = torch.lerp(local_kl, others[1], self.mixture.share)
        if self.smoothing:
            spread = _nll_of_all_classes(head, embedding, readout)
            nll = torch.lerp(nll, spread.mean().to(nll), self.smoothing)
        if self.teacher is not None:
            apart = distance_to_teacher(head.belief(embedding, readout), self.teacher[-len(labels) :])
            nll = torch.lerp(nll, apart.mean().to(nll), self.teacher_weight)
        return nll, local_kl


class BatchTransform:
    """What a run makes of each batch: augmented inputs, and soft targets where labels do not say all.

    Everything drawn for it is a function of seed, epoch, step and rank.
    """

    def __init__(
        self, settings: RunSettings, teacher: Predictor | None, device: torch.device, rank: int = 0
    ) -> None:
        self.settings, self.teacher, self.device, self.rank = settings, teacher, device, rank

    def __call__(self, batch: Batch, epoch: int, step: int) -> tuple[Batch, SoftTargets | None]:
        """The augmented batch, and its soft targets; None where its labels say all."""
        options, smoothing = self.settings.augmentation, self.settings.optimisation.label_smoothing
        mixture = None
        if options != NO_AUGMENTATION:
            drawn = generator_for(self.settings.seed, Purpose.AUGMENTATION, epoch, step, self.rank)
            batch = batch._replace(inputs=augmented(batch.inputs, options, drawn))
            if options.mixup:
                inputs, mixture = mixup(batch.inputs, batch.labels, options.mixup, drawn)
                batch = batch._replace(inputs=inputs)
        if mixture is None and not smoothing and self.teacher is None:
            return batch, None
        if self.settings.distillation is None:
            return batch, SoftTargets(mixture, smoothing)
        taught = fitted(self._teacher_prediction(batch.inputs))
        return batch, SoftTargets(mixture, smoothing, taught, self.settings.distillation.weight)

    def teacher_fingerprint(self, source: Source, batch_size: int) -> float:
        """A number that distinguishes teachers: the mean entropy of the first predictions."""
        reseed(self.device, self.settings.seed)
        rows = moved(labelled_batch(next(iter(source.batches(batch_size)))).inputs, self.device)
        return round(float(self._teacher_prediction(rows).entropy.mean()), 4)

    @torch.no_grad()
    def _teacher_prediction(self, inputs: Inputs) -> Predictive:
        assert self.teacher is not None
        assert self.settings.distillation is not None
        return self.teacher.predict(inputs, draws=self.settings.distillation.draws)


def fitted(prediction: Predictive) -> Tensor:
    """The log-concentrations of the Dirichlet distributions with a prediction's mean and spread, row by row.

    The spread is that of π over draws (or members) and within the belief of each: what the decomposition
    calls reducible and irreducible together.
    """
    means = prediction.belief.mean  # [draws, batch, classes]
    spread = prediction.belief.variance.mean(0) + means.var(0, correction=0)
    return dirichlet.from_moments(means.mean(0), spread)


def distance_to_teacher(belief: Belief, teacher: Tensor) -> Tensor:
    """KL(belief ‖ Dir(β)) / β₀ for every row: least where a student believes what its teacher does.

    With more and more evidence β₀ it becomes the expected NLL of the teacher's mean, so that it weighs as
    much as the NLL of a label (Ryabinin et al., 2021). A student whose π is a point learns the mean alone.
    """
    if isinstance(belief, Dirichlet):
        return dirichlet.kl(belief.log_concentration, teacher) / teacher.exp().sum(-1)
    return -(dirichlet.mean(teacher) * belief.log_mean).sum(-1)


def _nll_of_all_classes(head: Head, embedding: Tensor, readout: Tensor) -> Tensor:
    """The mean over classes of E[−log π], a number per row."""
    if isinstance(head, SquaredErrorHead):
        raise InputError(
            "edl learns by a squared error, which has no labels to smooth. Use label_smoothing=0."
        )
    belief = head.belief(embedding, readout)
    if isinstance(belief, Dirichlet):
        alpha = belief.log_concentration.double().exp()
        return alpha.sum(-1).digamma() - alpha.digamma().mean(-1)
    return -belief.log_mean.mean(-1)
