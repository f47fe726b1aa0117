"""The one training loop: a write to the memory and a step down the free energy for each batch.

`train` is the paper's algorithm on rows in memory, for reading; `fit` and the estimators run the same loop
with more around it. A loss, a weight or a cell that is not finite ends a run, and the error says where and
why.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset

from totalcal.errors import DivergenceError, InputError
from totalcal.inputs import Inputs, not_finite
from totalcal.models.process import HeadLoss, TuringProcess
from totalcal.training.averaging import AveragedWeights
from totalcal.training.batches import context_size
from totalcal.training.callbacks import Callback, Plan
from totalcal.training.history import EarlyStopping, EpochReport, History, StepReport, Tally
from totalcal.training.optimizers import Schedule
from totalcal.training.options import Contexts
from totalcal.training.sources import Source, TensorSource, labelled_batch
from totalcal.types import Batch, LossTerms, MemoryUpdate

if TYPE_CHECKING:
    from totalcal.training.checkpoint import Checkpointer

_CAUSES = {
    "expected_nll": "The backbone's output overflows: scale the inputs (z-score) or lower the learning rate",
    "local_kl": "A belief over π has left the range of numbers: lower the learning rate",
    "latent_kl": "The distribution of Z has collapsed or exploded: lower the learning rate or its weight",
    "weight_kl": "The distribution of the weights has left the range of numbers: lower the learning rate",
    "loss": "The terms are finite, but their sum is not: the weights of the KLs are too large",
}


class ForwardPass(nn.Module):
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


class Step(NamedTuple):
    """What a gradient step sees: a batch, how many of its first rows are the context, another loss if any."""

    batch: Batch
    context: int
    head_loss: HeadLoss | None = None
    generator: torch.Generator | None = None
    """Where weights and latents draw from; torch's global generator without one."""


class Trainer:
    """A model in training: where it stands, and the loop that takes it further.

    Args:
        model: What is trained.
        optimizer: Over its parameters.
        examples: Rows of the training set, which the KL of the weights is shared among.
        forward: Its `ForwardPass`, or what a data-parallel wrapper made of one.
        whole: The user's model, where `model` is a part of it.
        schedule: Moves the learning rate.
        average: The decay of the averaged weights that the run ends with; 0 for none.
        patience: Epochs without a lower validation NLL after which the run ends, with the best epoch's model.
        backward: In place of `Tensor.backward`, such as Fabric's.
        clip: Called between the gradient and the optimiser's step.
    """

    def __init__(
        self,
        model: TuringProcess,
        optimizer: Optimizer,
        examples: int,
        *,
        forward: nn.Module | None = None,
        whole: TuringProcess | None = None,
        schedule: Schedule | None = None,
        average: float = 0.0,
        patience: int | None = None,
        backward: Callable[[Tensor], object] = Tensor.backward,
        clip: Callable[[], object] | None = None,
    ) -> None:
        self.model, self.optimizer, self.examples = model, optimizer, examples
        self.forward = ForwardPass(model) if forward is None else forward
        self.whole = model if whole is None else whole
        self.schedule, self.backward, self.clip = schedule, backward, clip
        self.weights = AveragedWeights(self.whole, model, average)
        self.stopping = EarlyStopping(patience)
        self.epoch = self.step = 0
        """The epoch to be done next, and how many of its steps are done."""
        self.history, self.tally = History(), Tally()

    @property
    def learning_rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    def run(
        self,
        steps: Callable[[int, int], Iterable[Step]],
        epochs: int,
        *,
        steps_per_epoch: int = 0,
        validate: Callable[[int], float | None] = lambda epoch: None,
        reduce: Callable[[Tensor], Tensor] = lambda means: means,
        callbacks: Sequence[Callback] = (),
        checkpointer: "Checkpointer | None" = None,
    ) -> History:
        """All epochs that are left, or as many as early stopping allows.

        Args:
            steps: The steps of an epoch that are left after so many, given the epoch and that number.
            epochs: How many there are in all.
            steps_per_epoch: For whoever watches.
            validate: The validation NLL after an epoch, or None; sees the averaged model.
            reduce: The mean of an epoch's numbers over the ranks of a run.
            callbacks: What watches the run.
            checkpointer: What saves and resumes it.

        Returns:
            A report and a time for each epoch.
        """
        if checkpointer is not None:
            checkpointer.resume(self)
        with ExitStack() as watched:
            for callback in callbacks:
                callback.started(Plan(self.model, epochs, steps_per_epoch))
                watched.callback(callback.ended)
            while self.epoch < epochs and not self.stopping.is_over(self.history):
                self.run_epoch(steps(self.epoch, self.step), validate, reduce, callbacks, checkpointer)
        self.weights.settle()
        self.stopping.restore_best(self.whole)
        self.whole.eval()
        return self.history

    def run_epoch(
        self,
        steps: Iterable[Step],
        validate: Callable[[int], float | None] = lambda epoch: None,
        reduce: Callable[[Tensor], Tensor] = lambda means: means,
        callbacks: Sequence[Callback] = (),
        checkpointer: "Checkpointer | None" = None,
    ) -> None:
        """The steps of one epoch that are left, and what follows it."""
        started = time.perf_counter()
        self.forward.train()
        for each in steps:
            report = self.take(each)
            self.tally.add(report)
            self.weights.update()
            if self.schedule is not None:
                self.schedule.after_step()
            self.step += 1
            for callback in callbacks:
                callback.stepped(report)
            if checkpointer is not None:
                checkpointer.after_step(self)
        check_weights(self.model, self.learning_rate)
        self.history.seconds.append(time.perf_counter() - started)
        numbers = self.tally.means()
        means = reduce(torch.tensor(list(numbers.values()), dtype=torch.float64)).tolist()
        with self.weights.in_place():
            nll = validate(self.epoch)
            rate, named = self.learning_rate, dict(zip(numbers, means, strict=True))
            self.history.epochs.append(EpochReport(self.epoch, rate, **named, validation_nll=nll))
            self.stopping.update(self.history, self.whole)
        if self.schedule is not None:
            self.schedule.after_epoch(nll)
        self.epoch, self.step, self.tally = self.epoch + 1, 0, Tally()
        for callback in callbacks:
            callback.epoch_ended(self.history.epochs[-1])
        if checkpointer is not None:
            checkpointer.after_epoch(self)

    def take(self, step: Step) -> StepReport:
        """One gradient step."""
        batch = step.batch
        terms, update = self.forward(batch.inputs, batch.labels, step.context, step.generator, step.head_loss)
        loss = terms.total(examples=self.examples, epoch=self.epoch)
        report = StepReport.of(self.epoch, self.step, len(batch.labels), loss, terms, update)
        check_loss(report, self.model, self.learning_rate)
        self.optimizer.zero_grad()
        self.backward(loss)
        if self.clip is not None:
            self.clip()
        self.optimizer.step()
        return report


def steps_in_memory(
    source: Source,
    batch_size: int,
    generator: torch.Generator | None = None,
    noise: torch.Generator | None = None,
) -> Iterator[Step]:
    """A step for each batch of a source held in memory; everything is drawn from one generator.

    Rows on another device than the CPU take their `noise` from a generator there.
    """
    for drawn in source.batches(batch_size, generator or torch.default_generator):
        batch = labelled_batch(drawn)
        yield Step(batch, context_size(len(batch.labels), generator), generator=noise or generator)


def check_loss(report: StepReport, model: nn.Module, learning_rate: float) -> None:
    """Raise if the loss of a step is not a number, before its gradient reaches the weights."""
    if math.isfinite(report.loss):
        return
    term = next(name for name in _CAUSES if not math.isfinite(getattr(report, name)))
    raise DivergenceError(
        f"the loss is {report.loss} in epoch {report.epoch}, step {report.step}: "
        f"its term {term} is {getattr(report, term)}.\n  {_not_finite(model) or _CAUSES[term]} "
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


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Numbers below 10⁻³⁸ are zeros while a run trains; afterwards they are what they were before.

    A processor is slow over denormal numbers, and gradients far back in a padded text are nothing else: a
    step of an LSTM over 500 words is several times as fast without them. torch does not tell how it is set,
    but a denormal number does.
    """
    was_on = float(torch.tensor(1e-30) * torch.tensor(1e-10)) == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(was_on)


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
    data = TensorSource(*labelled_batch(inputs)) if labels is None else TensorSource(inputs, labels)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    trainer = Trainer(model, optimizer, len(data), forward=ForwardPass(model, write_generator=generator))
    reports = _Reports()
    trainer.run(lambda *_: steps_in_memory(data, batch_size, generator), epochs, callbacks=[reports])
    return reports.taken


class _Reports(Callback):
    def __init__(self) -> None:
        self.taken: list[StepReport] = []

    def stepped(self, report: StepReport) -> None:
        self.taken.append(report)
