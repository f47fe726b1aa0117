"""Seven models and three rivals on one training set, with the same net, optimiser and number of steps."""

from functools import cache, partial

import torch
from torch import nn

from totalcal.backbones import mlp
from totalcal.models import MODELS
from totalcal.process import TuringProcess
from totalcal.rivals import RIVALS
from totalcal.training.loop import train
from totalcal.types import Batch, ContextUse, Predictor

HIDDEN = (32, 32)
BATCH_SIZE, LEARNING_RATE = 64, 3e-3
CONTEXT = 50
HELD_OUT = 5  # one of so many examples is held out for the rivals that need it; nobody trains on it
PREDICTORS = (*MODELS, *RIVALS)


def trained(data: Batch, num_classes: int, steps: int, seed: int) -> dict[str, Predictor]:
    """Every model and rival, by name. The plain net is trained once for all who want the same one."""
    cut = len(data.labels) - len(data.labels) // HELD_OUT
    rows, held_out = Batch(data.inputs[:cut], data.labels[:cut]), Batch(data.inputs[cut:], data.labels[cut:])
    fit = cache(partial(fitted, rows, num_classes, steps))

    def train_net(member: int = 0, dropout: float = 0.0) -> nn.Module:
        return fit("softmax", seed + 1000 * member, dropout).backbone

    models = {name: _with_context(fit(name, seed, 0.0), rows) for name in MODELS}
    return models | {name: build(train_net, held_out) for name, build in RIVALS.items()}


def fitted(
    rows: Batch, num_classes: int, steps: int, name: str, seed: int, dropout: float = 0.0
) -> TuringProcess:
    """One model after about so many gradient steps; everything random comes from the seed."""
    steps_an_epoch = -(-len(rows.labels) // BATCH_SIZE)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # initial weights and dropout know torch's own generator only
        model = MODELS[name](mlp(rows.inputs.shape[1], num_classes, HIDDEN, dropout), num_classes)
        train(
            model,
            *rows,
            epochs=max(1, round(steps / steps_an_epoch)),
            learning_rate=LEARNING_RATE,
            batch_size=BATCH_SIZE,
            generator=torch.Generator().manual_seed(seed),
        )
    return model


def _with_context(model: TuringProcess, rows: Batch) -> Predictor:
    """A model that cannot predict without a context gets some of its training rows."""
    if model.context_use is ContextUse.REQUIRED:
        return model.given(Batch(rows.inputs[:CONTEXT], rows.labels[:CONTEXT]))
    return model
