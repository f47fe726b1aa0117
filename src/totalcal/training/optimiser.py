"""The optimiser and the schedule of a run."""

from collections.abc import Iterable

import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler

from totalcal.errors import UnknownNameError
from totalcal.parts.sampling import stochastic_layers
from totalcal.training.options import Optimisation, Precision


def build_optimizer(model: nn.Module, options: Optimisation, fused: bool) -> Optimizer:
    """Adam or SGD with momentum over the parameters that want a gradient."""
    groups = _groups(model, options.weight_decay)
    if options.optimizer == "adam":
        return Adam(groups, lr=options.learning_rate, fused=fused)
    if options.optimizer == "sgd":
        return SGD(groups, lr=options.learning_rate, momentum=options.momentum, fused=fused)
    raise UnknownNameError("optimizer", options.optimizer, ("adam", "sgd"))


def build_schedule(optimizer: Optimizer, options: Optimisation, epochs: int) -> LRScheduler:
    """Half a cosine over the epochs down to 0, or none; moved once an epoch."""
    if options.schedule == "cosine":
        return CosineAnnealingLR(optimizer, T_max=epochs)
    if options.schedule == "constant":
        return LambdaLR(optimizer, lambda epoch: 1.0)
    raise UnknownNameError("schedule", options.schedule, ("cosine", "constant"))


def may_fuse(device: torch.device, precision: Precision, options: Optimisation) -> bool:
    """Whether one kernel may update all parameters; not where scaled gradients must be clipped before."""
    return device.type in {"cpu", "cuda"} and not (precision == "16-mixed" and options.clip is not None)


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Weight decay is for weights that are points: weights with a law have their prior."""
    laws = {id(weight) for layer in stochastic_layers(model) for weight in layer.parameters()}
    wanted = [weight for weight in model.parameters() if weight.requires_grad]
    points = _group((weight for weight in wanted if id(weight) not in laws), weight_decay)
    drawn = _group((weight for weight in wanted if id(weight) in laws), 0.0)
    return [group for group in (points, drawn) if group["params"]]


def _group(parameters: Iterable[nn.Parameter], weight_decay: float) -> dict[str, object]:
    return {"params": list(parameters), "weight_decay": weight_decay}
