"""The optimiser of a run, and how its learning rate moves: torch's own, chosen by `Optimisation`."""

import math
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LambdaLR,
    LRScheduler,
    OneCycleLR,
    ReduceLROnPlateau,
)

from totalcal.errors import UnknownNameError
from totalcal.parts.sampling import stochastic_layers
from totalcal.training.options import Optimisation, Precision


def build_optimizer(model: nn.Module, options: Optimisation, fused: bool) -> Optimizer:
    """Adam, AdamW or SGD with momentum over the parameters that want a gradient.

    Weight decay is for weights that are points: weights with a distribution have their prior.
    """
    stochastic = {id(weight) for layer in stochastic_layers(model) for weight in layer.parameters()}
    wanted = [weight for weight in model.parameters() if weight.requires_grad]
    points = [weight for weight in wanted if id(weight) not in stochastic]
    drawn = [weight for weight in wanted if id(weight) in stochastic]
    groups: list[dict[str, Any]] = []
    if points:
        groups.append({"params": points, "weight_decay": options.weight_decay})
    if drawn:
        groups.append({"params": drawn, "weight_decay": 0.0})
    if options.optimizer == "adam":
        return Adam(groups, lr=options.learning_rate, fused=fused)
    if options.optimizer == "adamw":
        return AdamW(groups, lr=options.learning_rate, fused=fused)
    if options.optimizer == "sgd":
        return SGD(groups, lr=options.learning_rate, momentum=options.momentum, fused=fused)
    raise UnknownNameError("optimizer", options.optimizer, ("adam", "adamw", "sgd"))


def may_fuse(device: torch.device, precision: Precision, options: Optimisation) -> bool:
    """Whether one kernel may update all parameters; not where scaled gradients must be clipped before."""
    return device.type in {"cpu", "cuda"} and not (precision == "16-mixed" and options.clip is not None)


class Schedule(Protocol):
    """How the learning rate of a run moves."""

    def after_step(self) -> None: ...

    def after_epoch(self, validation_nll: float | None) -> None: ...


class PlannedSchedule:
    """As `Optimisation` says, moved once per step where it has to be, otherwise once per epoch."""

    def __init__(self, optimizer: Optimizer, options: Optimisation, epochs: int, steps: int) -> None:
        if options.schedule not in ("cosine", "constant", "one_cycle"):
            raise UnknownNameError("schedule", options.schedule, ("cosine", "constant", "one_cycle"))
        self.total = epochs * steps
        self.by_step = options.warmup > 0 or options.schedule == "one_cycle"
        if options.schedule == "one_cycle":
            self.scheduler: LRScheduler = OneCycleLR(
                optimizer, max_lr=options.learning_rate, total_steps=self.total, cycle_momentum=False
            )
        elif options.warmup:
            rising = max(options.warmup * steps, 1.0)
            falls = options.schedule == "cosine"

            def share(step: int) -> float:
                cosine = (1 + math.cos(math.pi * (step // steps) / epochs)) / 2 if falls else 1.0
                return min(1.0, (step + 1) / rising) * cosine

            self.scheduler = LambdaLR(optimizer, share)
        elif options.schedule == "cosine":
            self.scheduler = CosineAnnealingLR(optimizer, T_max=epochs)
        else:
            self.scheduler = ConstantLR(optimizer, factor=1.0)

    def after_step(self) -> None:
        if self.by_step and self.scheduler.last_epoch < self.total:  # a loader may give more than it said
            self.scheduler.step()

    def after_epoch(self, validation_nll: float | None) -> None:
        if not self.by_step:
            self.scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        return self.scheduler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.scheduler.load_state_dict(state)


class HalvedOnPlateau:
    """Half the learning rate after so many epochs without a lower validation NLL."""

    def __init__(self, optimizer: Optimizer, patience: int) -> None:
        self.scheduler = ReduceLROnPlateau(optimizer, factor=0.5, patience=patience - 1, threshold=0.0)

    def after_step(self) -> None: ...

    def after_epoch(self, validation_nll: float | None) -> None:
        if validation_nll is not None:
            self.scheduler.step(validation_nll)
