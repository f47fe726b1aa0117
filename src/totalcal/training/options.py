"""The options of a training run; the defaults are those that the paper's authors ran with."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, get_args

import torch

from totalcal.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Precision = Literal["32-true", "64-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true"]


@dataclass(frozen=True)
class Optimisation:
    """How the free energy is minimised.

    Args:
        optimizer: `adamw` keeps weight decay out of the gradient's moments.
        learning_rate: The peak of the run.
        momentum: Of SGD.
        weight_decay: Of weights that are points; those with a distribution have their prior.
        schedule: `cosine` falls to 0 and moves once per epoch; `one_cycle` rises from a 25th over the first
            three tenths of all steps, then falls to almost 0, and moves at every step.
        clip: The largest norm of a step's gradient; longer ones are scaled down.
        warmup: Epochs over which the learning rate first rises from 0, step by step; not for `one_cycle`.
        average: The decay of an exponential moving average of the weights, such as 0.999, which the run then
            ends with; 0 for none.
        label_smoothing: The share of each label that is spread evenly over all classes.
    """

    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: Literal["cosine", "constant", "one_cycle"] = "cosine"
    clip: float | None = None
    warmup: float = 0.0
    average: float = 0.0
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        for name in ("average", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} must lie in [0, 1), but is {getattr(self, name)}.")
        if self.clip is not None and not (isinstance(self.clip, int | float) and self.clip > 0):
            raise InputError(f"clip must be a number above 0, or None, but is {self.clip!r}.")
        if self.warmup < 0:
            raise InputError(f"warmup is a number of epochs, 0 or more, but is {self.warmup}.")
        if self.warmup and self.schedule == "one_cycle":
            raise InputError("one_cycle has a warm-up of its own. Use warmup=0, or another schedule.")


@dataclass(frozen=True)
class Augmentation:
    """Random changes to the inputs of each batch, new in every epoch; none by default.

    All but `mixup` are for images: tensors of batch × channels × height × width.

    Args:
        shifts: Pixels, at most, by which an image moves along each axis; its edge is continued.
        flips: Whether half of the images are mirrored left to right.
        cutout: The side, in pixels, of a square that is overwritten with the image's mean.
        brightness: What is added to an image is drawn between minus this and this, in units of the inputs.
        contrast: An image's deviations from its mean grow by a factor drawn within this of 1.
        mixup: The parameter a of Beta(a, a), from which the share of another row in each row is drawn, per
            batch; the loss is mixed in the same shares. The memory is told the label of the larger share.
    """

    shifts: int = 0
    flips: bool = False
    cutout: int = 0
    brightness: float = 0.0
    contrast: float = 0.0
    mixup: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 0:
                raise InputError(f"{name} must be 0 (nothing is done) or more, but is {value}.")
        if self.contrast > 1:
            raise InputError(f"contrast changes a factor of 1 by at most 1, but is {self.contrast}.")

    @property
    def is_for_images(self) -> bool:
        return self != Augmentation(mixup=self.mixup)


@dataclass(frozen=True)
class Distillation:
    """The teacher's share of the loss, and how many draws the teacher makes for each batch."""

    weight: float = 0.5
    draws: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.weight <= 1:
            raise InputError(f"the teacher's weight must lie in (0, 1], but is {self.weight}.")


@dataclass(frozen=True)
class Contexts:
    """Which rows of a batch are its context: the first n, n uniform in [shortest, min(limit, rows)).

    `write` says whether the memory takes them in before the loss is computed (the paper's algorithm) or after
    it (the authors' program).
    """

    shortest: int = 3
    limit: int = 50
    write: Literal["before", "after"] = "before"


def absent_device(kind: str) -> str:
    """That a machine has no such device, in words; empty where it has one, or where torch must say.

    >>> absent_device("cpu")
    ''
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    there = {"cuda": cuda, "mps": mps, "gpu": cuda or mps}
    return "" if there.get(kind, True) else f"torch finds no {kind} device on this machine"


@dataclass(frozen=True)
class Hardware:
    """Devices and precision of a run, as Lightning Fabric names them; strategy="ddp" for several devices.

    Several devices take the steps of one, to rounding, where the batches and their contexts divide by the
    number of devices. Elsewhere each device gets equally many rows: the rest of a batch, fewer rows than
    devices, is left out, and contexts are rounded down, so that a run on one device learns otherwise.
    """

    accelerator: str = "auto"
    devices: int | str | list[int] = 1
    strategy: str = "auto"
    precision: Precision = "32-true"
    num_nodes: int = 1

    def __post_init__(self) -> None:
        if self.precision not in get_args(Precision):
            raise UnknownNameError("precision", self.precision, get_args(Precision))

    def launch(self) -> "Fabric":
        """Start the processes of the run.

        Raises:
            InputError: If this machine has no such devices.
        """
        from lightning_fabric import Fabric  # here: it takes a second to import, and `train` needs none

        absent = absent_device(self.accelerator)
        if absent:
            raise InputError(f'{absent}. Use accelerator="cpu", or "auto" for what is there.')
        try:
            fabric = Fabric(
                accelerator=self.accelerator,
                devices=self.devices,
                strategy=self.strategy,
                precision=self.precision,
                num_nodes=self.num_nodes,
            )
        except (RuntimeError, ValueError, TypeError, ImportError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"this machine cannot train with accelerator={self.accelerator!r} and devices="
                f'{self.devices!r} ({reason}). Use accelerator="cpu", or "auto" for what is there.'
            ) from error
        fabric.launch()
        return fabric


@dataclass(frozen=True)
class RunSettings:
    """The settings that the numbers of a run depend on, on one device or many."""

    epochs: int
    batch_size: int
    seed: int
    optimisation: Optimisation
    contexts: Contexts
    patience: int | None
    precision: Precision
    augmentation: Augmentation = Augmentation()
    distillation: Distillation | None = None


ADAM = Optimisation()
PAPER_CONTEXTS = Contexts()
ONE_DEVICE = Hardware()
NO_AUGMENTATION = Augmentation()
HALF = Distillation()
