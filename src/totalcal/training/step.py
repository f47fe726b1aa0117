"""The gradient step, written once, and the paper's algorithm as a plain loop over it, for reading.

`fit`, `train`, the estimators and the toys all take this step. It reads a batch, writes its first rows to the
memory, and goes down the free energy of all of it. A loss, a weight or a cell that is not finite ends a run,
and the error says where and why.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler
from torch.utils.data import DataLoader, Dataset

from totalcal.errors import DivergenceError, InputError, UnknownNameError
from totalcal.inputs import Inputs, not_finite
from totalcal.models.process import HeadLoss, TuringProcess
from totalcal.parts.sampling import stochastic_layers
from totalcal.training.batches import context_size
from totalcal.training.history import StepReport
from totalcal.training.options import Contexts, Optimisation, Precision
from totalcal.training.sources import Source, TensorSource, labelled
from totalcal.types import Batch, LossTerms, MemoryUpdate

_CAUSES = {
    "expected_nll": "The backbone's output overflows: scale the inputs (z-score) or lower the learning rate",
    "local_kl": "A belief over π has left the range of numbers: lower the learning rate",
    "latent_kl": "The distribution of Z has collapsed or exploded: lower the learning rate or its weight",
    "weight_kl": "The distribution of the weights has left the range of numbers: lower the learning rate",
    "loss": "The terms are finite, but their sum is not: the weights of the KLs are too large",
}

_RISING, _LOWEST = 0.3, 1 / 25


class Pass(nn.Module):
    """The forward pass of a step as one module, which data-parallel wrappers can hold.

    Encodes a batch once, writes its first rows to the memory, gives the free energy of all of it. A write
    draws from `write_generator`, or from the memory's own generator without one.
    """

    def __init__(
        self,
        process: TuringProcess,
        write: str = Contexts.write,
        write_generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.process, self.write, self.write_generator = process, write, write_generator

    def forward(
        self,
        inputs: Inputs,
        labels: Tensor,
        context: int,
        generator: torch.Generator | None = None,
        head_loss: HeadLoss | None = None,
    ) -> tuple[LossTerms, MemoryUpdate]:
        order = self.write_generator, self.write == "before"
        return self.process.step(inputs, labels, context, generator, *order, head_loss)


class Trainer:
    """A model's pass, its optimiser, and the step that both take on a training set of so many `examples`.

    `run` is the pass, or what a data-parallel wrapper made of it; `backward` and `clip` are the wrapper's
    own.
    """

    def __init__(
        self,
        model: nn.Module,
        run: nn.Module,
        optimizer: Optimizer,
        examples: int,
        backward: Callable[[Tensor], object] = Tensor.backward,
        clip: Callable[[], object] | None = None,
    ) -> None:
        self.model, self.run, self.optimizer, self.examples = model, run, optimizer, examples
        self.backward, self.clip = backward, clip

    @property
    def learning_rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    def step(
        self,
        batch: Batch,
        context: int,
        epoch: int,
        step: int,
        generator: torch.Generator | None = None,
        head_loss: HeadLoss | None = None,
    ) -> StepReport:
        """One step; its first `context` rows are the context."""
        terms, movement = self.run(batch.inputs, batch.labels, context, generator, head_loss)
        loss = terms.total(examples=self.examples, epoch=epoch)
        report = StepReport.of(epoch, step, len(batch.labels), loss, terms, movement)
        check_loss(report, self.model, self.learning_rate)
        self.optimizer.zero_grad()
        self.backward(loss)
        if self.clip is not None:
            self.clip()
        self.optimizer.step()
        return report

    def epoch(
        self,
        source: Source,
        batch_size: int,
        epoch: int,
        generator: torch.Generator | None = None,
        noise: torch.Generator | None = None,
    ) -> Iterator[StepReport]:
        """A step for each batch of a source held in memory; everything is drawn from one generator.

        Rows on another device than the CPU take their `noise` from a generator there.
        """
        order = generator or torch.default_generator
        for step, drawn in enumerate(source.batches(batch_size, order)):
            batch = labelled(drawn)
            context = context_size(len(batch.labels), generator)
            yield self.step(batch, context, epoch, step, noise or generator)
        check_weights(self.model, self.learning_rate)


def check_loss(report: StepReport, model: nn.Module, learning_rate: float) -> None:
    """Raise if the loss of a step is not a number, before its gradient reaches the weights."""
    if math.isfinite(report.loss):
        return
    term = next(name for name in _CAUSES if not math.isfinite(getattr(report, name)))
    cause = _not_finite(model) or _CAUSES[term]
    raise DivergenceError(
        f"the loss is {report.loss} in epoch {report.epoch}, step {report.step}: "
        f"its term {term} is {getattr(report, term)}.\n  {cause} "
        f"(the learning rate is {learning_rate:g}), or set Optimisation(clip=1.0)."
    )


def check_weights(model: nn.Module, learning_rate: float) -> None:
    """Raise if training has left something that is not finite: the last step's loss cannot tell of it."""
    cause = _not_finite(model)
    if cause is not None:
        raise DivergenceError(
            f"training has ended in numbers that are not finite.\n  {cause} "
            f"(the learning rate is {learning_rate:g}), or set Optimisation(clip=1.0)."
        )


def _not_finite(model: nn.Module) -> str | None:
    broken = not_finite(model)
    return broken and f"{broken} is not finite: an earlier step was too long. Lower the learning rate"


def build_optimizer(model: nn.Module, options: Optimisation, fused: bool) -> Optimizer:
    """Adam, AdamW or SGD with momentum over the parameters that want a gradient."""
    groups = _groups(model, options.weight_decay)
    if options.optimizer == "adam":
        return Adam(groups, lr=options.learning_rate, fused=fused)
    if options.optimizer == "adamw":
        return AdamW(groups, lr=options.learning_rate, fused=fused)
    if options.optimizer == "sgd":
        return SGD(groups, lr=options.learning_rate, momentum=options.momentum, fused=fused)
    raise UnknownNameError("optimizer", options.optimizer, ("adam", "adamw", "sgd"))


class Schedule:
    """The learning rate of a run, moved once per step where it has to be, otherwise once per epoch."""

    def __init__(self, optimizer: Optimizer, options: Optimisation, epochs: int, steps: int) -> None:
        if options.schedule not in ("cosine", "constant", "one_cycle"):
            raise UnknownNameError("schedule", options.schedule, ("cosine", "constant", "one_cycle"))
        self.by_step = options.warmup > 0 or options.schedule == "one_cycle"
        if self.by_step:
            self.moved: LRScheduler = LambdaLR(optimizer, partial(_share, options, epochs, steps))
        elif options.schedule == "cosine":
            self.moved = CosineAnnealingLR(optimizer, T_max=epochs)
        else:
            self.moved = LambdaLR(optimizer, lambda epoch: 1.0)

    def after_step(self) -> None:
        if self.by_step:
            self.moved.step()

    def after_epoch(self) -> None:
        if not self.by_step:
            self.moved.step()

    def state_dict(self) -> dict[str, Any]:
        return self.moved.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.moved.load_state_dict(state)


def _share(options: Optimisation, epochs: int, steps: int, step: int) -> float:
    """The share of the full learning rate in a step, counted from 0, of epochs × steps."""
    if options.schedule == "one_cycle":
        return _one_cycle(step, epochs * steps)
    rising = min(1.0, (step + 1) / max(options.warmup * steps, 1.0))
    if options.schedule == "constant":
        return rising
    return rising * _half_cosine(1.0, 0.0, step // steps / epochs)


def _one_cycle(step: int, steps: int) -> float:
    """Up from a 25th over the first three tenths, then down to 4 · 10⁻⁶, in cosines (Smith, 2018)."""
    peak = max(_RISING * steps - 1, 1.0)
    if step <= peak:
        return _half_cosine(_LOWEST, 1.0, step / peak)
    return _half_cosine(1.0, _LOWEST * 1e-4, min(1.0, (step - peak) / max(steps - 1 - peak, 1.0)))


def _half_cosine(start: float, end: float, progress: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * progress))


def may_fuse(device: torch.device, precision: Precision, options: Optimisation) -> bool:
    """Whether one kernel may update all parameters; not where scaled gradients must be clipped before."""
    return device.type in {"cpu", "cuda"} and not (precision == "16-mixed" and options.clip is not None)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Numbers below 10⁻³⁸ are zeros while a run trains.

    A processor is slow over denormal numbers, and gradients far back in a padded text are nothing else: a
    step of an LSTM over 500 words is several times as fast without them. torch does not tell how it was set,
    so afterwards it is as it comes: denormal numbers are kept.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Weight decay is for weights that are points: weights with a distribution have their prior."""
    stochastic = {id(weight) for layer in stochastic_layers(model) for weight in layer.parameters()}
    wanted = [weight for weight in model.parameters() if weight.requires_grad]
    points = _group((weight for weight in wanted if id(weight) not in stochastic), weight_decay)
    drawn = _group((weight for weight in wanted if id(weight) in stochastic), 0.0)
    return [group for group in (points, drawn) if group["params"]]


def _group(parameters: Iterable[nn.Parameter], weight_decay: float) -> dict[str, object]:
    return {"params": list(parameters), "weight_decay": weight_decay}


def train(
    model: TuringProcess,
    inputs: Any,
    labels: Any = None,
    *,
    epochs: int,
    learning_rate: float = 1e-3,
    batch_size: int = 128,
    generator: torch.Generator | None = None,
) -> list[StepReport]:
    """Adam on the free energy, a write to the memory before every step; the model is trained in place.

    For real work take `fit`, which has schedules, validation, checkpoints and devices.

    Args:
        model: Any model of the family; it is left in evaluation mode.
        inputs: Rows × whatever the backbone takes, on the model's device; or a pair (inputs, labels), or a
            mapping with `labels`.
        labels: The class of each row, 0 to `num_classes` − 1; None where they come with the inputs.
        epochs: How often every row is seen.
        learning_rate: Of Adam; constant.
        batch_size: Rows per gradient step.
        generator: Where order, contexts, weights and memory draw from; torch's global generator without one.

    Returns:
        A report for each gradient step: its epoch, the loss, the loss's terms, how far the memory moved.

    Raises:
        InputError: If inputs and labels differ in length, or inputs are not finite.
        LabelError: If a label is not a class.
        DivergenceError: If the loss, a weight or a memory cell ceases to be finite.

    Example:
        >>> import totalcal
        >>> inputs, labels = torch.randn(64, 2), torch.randint(3, (64,))
        >>> model = totalcal.etp(torch.nn.Linear(2, 3), num_classes=3)
        >>> steps = totalcal.train(model, inputs, labels, epochs=2)
        >>> [step.epoch for step in steps]
        [0, 1]
    """
    if isinstance(inputs, Dataset | DataLoader):
        raise InputError(f"`train` takes rows held in memory, but got a {type(inputs).__name__}. Use `fit`.")
    data = TensorSource(*labelled(inputs)) if labels is None else TensorSource(inputs, labels)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    descent = Trainer(model, Pass(model, write_generator=generator), optimizer, examples=len(data))
    model.train()
    steps = [
        report for epoch in range(epochs) for report in descent.epoch(data, batch_size, epoch, generator)
    ]
    model.eval()
    return steps
