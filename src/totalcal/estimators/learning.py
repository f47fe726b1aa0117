"""Tables on their way into a model: rows are checked, weighted and split, then trained on in memory."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import issparse
from sklearn.model_selection import train_test_split
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from totalcal.errors import InputError, LabelError
from totalcal.models.process import TuringProcess
from totalcal.scores.fit import nll
from totalcal.training.callbacks import Callback
from totalcal.training.history import EarlyStopping, History
from totalcal.training.loop import Step, Trainer, steps_in_memory
from totalcal.training.optimizers import HalvedOnPlateau
from totalcal.training.options import absent_device
from totalcal.training.sources import Source, TensorSource, steps_per_epoch
from totalcal.types import Batch

SMALLEST_BATCH, LARGEST_BATCH = (
    64,
    1024,
)  # the step to 1024 was chosen by benchmarks/tables_choice.py --batches
DRAWN = 2  # of drawn weights gradients are noisier; chosen by benchmarks/tables_choice.py --drawn
_AUTO_STEPS = 128
NARROW, WIDE = 32, 128  # chosen by benchmarks/tables_choice.py, without and with --large
CONTEXT_ROWS = 50
_VALIDATION_DRAWS, _VALIDATION_PASSES = 5, 20_000


class Checked(NamedTuple):
    """A table, its labels, and a weight for each row, or None where all weigh the same."""

    table: npt.NDArray[np.float64]
    labels: npt.NDArray[Any]
    weights: Tensor | None


class WeightedRows(NamedTuple):
    """Encoded rows, with weights or without."""

    data: Batch
    weights: Tensor | None

    def at(self, index: Any) -> "WeightedRows":
        weights = None if self.weights is None else self.weights[index]
        return WeightedRows(Batch(self.data.inputs[index], self.data.labels[index]), weights)

    def on(self, device: torch.device, precision: torch.dtype) -> "WeightedRows":
        """The same rows on a device; weights stay, since rows are drawn on the CPU."""
        return WeightedRows(
            Batch(self.data.inputs.to(device, precision), self.data.labels.to(device)), self.weights
        )

    @property
    def source(self) -> Source:
        return TensorSource(*self.data, self.weights)


def refuse_sparse(table: Any) -> None:
    """Raises TypeError for a sparse table, and says what to do instead."""
    if issparse(table):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required. "
            "In a pipeline: OneHotEncoder(sparse_output=False), ColumnTransformer(…, sparse_threshold=0); "
            "otherwise X.toarray(), or fewer columns by TruncatedSVD."
        )


def checked(
    table: npt.NDArray[np.float64], labels: npt.NDArray[Any], sample_weight: Any, class_weight: Any = None
) -> Checked:
    """Labels that are classes, and weights that are finite and not negative; rows of weight 0 are dropped.

    The weight of a row is its own times that of its class, as everywhere in scikit-learn.
    """
    check_classification_targets(labels)
    if sample_weight is None and class_weight is None:
        return Checked(table, labels, None)
    weights = _check_sample_weight(sample_weight, table, dtype=np.float64, ensure_non_negative=True)
    weights = weights * compute_sample_weight(class_weight, labels)
    kept = weights > 0
    if not kept.any():
        raise InputError("all sample weights are 0, which leaves no row to learn from.")
    table, labels, weights = table[kept], labels[kept], weights[kept]
    equal = bool((weights == weights[0]).all())
    return Checked(table, labels, None if equal else torch.from_numpy(weights))


def check_classes(classes: npt.NDArray[Any], who: str) -> None:
    """Raises LabelError if there are fewer than two classes."""
    if len(classes) < 2:
        raise LabelError(f"{who} needs at least 2 classes, but the labels hold {len(classes)} class.")


def split(rows: WeightedRows, fraction: float, seed: int) -> tuple[WeightedRows, WeightedRows | None]:
    """A stratified share of the rows for validation, or none where the classes are too small to share."""
    labels = rows.data.labels
    count = round(fraction * len(labels))
    classes, sizes = labels.unique(return_counts=True)
    if count < len(classes) or int(sizes.min()) < 2 or len(labels) - count < len(classes):
        return rows, None
    order = np.arange(len(labels))
    first, second = train_test_split(order, test_size=count, stratify=labels, random_state=seed)
    return rows.at(first), rows.at(second)


def device_for(name: str) -> torch.device:
    """The device of that name, if it is there and can count in float64."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise InputError(f'device must be a name as "cpu" or "cuda:0", but got {name!r}.') from error
    absent = absent_device(device.type)
    if absent:
        raise InputError(f'{absent}. Use device="cpu".')
    try:
        torch.zeros(1, dtype=torch.float64, device=device) + 1
    except (RuntimeError, TypeError, AssertionError) as error:
        raise InputError(f'device={name!r} cannot count in float64, or is not there. Use "cpu".') from error
    return device


def hidden_for(rows: int, hidden: Sequence[int] | Literal["auto"]) -> list[int]:
    """The widths asked for; "auto" takes one layer of 32, and of 128 where batches begin to grow.

    >>> [hidden_for(rows, "auto") for rows in (150, 16_000, 20_000)]
    [[32], [32], [128]]
    """
    if isinstance(hidden, str):
        if hidden != "auto":
            raise InputError(
                f'hidden must be "auto" or the widths of layers, such as (32,), but is {hidden!r}.'
            )
        return [NARROW if batch_size_for(rows, "auto") == SMALLEST_BATCH else WIDE]
    return [int(width) for width in hidden]


def batch_size_for(rows: int, batch_size: int | Literal["auto"]) -> int:
    """What was asked for; "auto" grows with the table: 64 up to 16,000 rows, 128, 256, 1024 from 65,000 on.

    >>> [batch_size_for(rows, "auto") for rows in (150, 20_000, 40_000, 68_000, 10**7)]
    [64, 128, 256, 1024, 1024]
    """
    if batch_size != "auto":
        if not isinstance(batch_size, int | np.integer) or batch_size < 1:
            raise InputError(f'batch_size must be "auto" or a whole number ≥ 1, but is {batch_size!r}.')
        return int(batch_size)
    grown = 2 ** int(np.log2(max(rows / _AUTO_STEPS, 1)))
    return LARGEST_BATCH if grown >= LARGEST_BATCH // 2 else max(grown, SMALLEST_BATCH)


def is_large(rows: int) -> bool:
    """Whether batches grow with the table. It then trains in float32, which is faster, and at a learning rate
    that falls where the NLL of held-out rows does not.

    >>> is_large(16_000), is_large(20_000)
    (False, True)
    """
    return batch_size_for(rows, "auto") > SMALLEST_BATCH


def learning_rate_for(learning_rate: float, batch_size: int) -> float:
    """The rate is for batches of 64; Adam's noise stays alike if it grows with the root of the batch."""
    return learning_rate * math.sqrt(max(1.0, batch_size / SMALLEST_BATCH))


class TableTraining:
    """A model and its optimiser, which can go on learning at any time, on its device.

    In between the model is on the CPU and in float64: predictions, and so the promise of a gate, are the same
    on every machine, and those of a row do not depend on the rows beside it.
    """

    def __init__(
        self,
        model: TuringProcess,
        learning_rate: float,
        batch_size: int,
        device: torch.device,
        large: bool = False,
    ) -> None:
        self.model, self.batch_size, self.device, self.large = model, batch_size, device, large
        self.precision = torch.float32 if large else torch.float64
        self.optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
        self.trainer = Trainer(model, self.optimizer, examples=0)

    @property
    def history(self) -> History:
        return self.trainer.history

    def run(
        self,
        rows: WeightedRows,
        validation: WeightedRows | None,
        context: Batch | None,
        *,
        max_epochs: int,
        patience: int | None,
        generator: torch.Generator,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        """Learn until the validation NLL has not fallen for `patience` epochs, and keep the best epoch.

        A large table halves the learning rate after each half of the patience without progress.
        """
        trainer, rates = self.trainer, [group["lr"] for group in self.optimizer.param_groups]
        trainer.stopping = EarlyStopping(patience or None)
        if self.large and patience:
            trainer.schedule = HalvedOnPlateau(self.optimizer, max(1, patience // 2))
        trainer.run(
            lambda *_: self._steps(rows, generator),
            max_epochs,
            steps_per_epoch=steps_per_epoch(rows.source, self.batch_size),
            validate=lambda _: self._validated(validation, context),
            callbacks=callbacks,
        )
        trainer.stopping, trainer.schedule = EarlyStopping(None), None
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate  # rows that come later are learned as fast as the first ones

    def run_epoch(self, rows: WeightedRows, generator: torch.Generator) -> None:
        """Every row once."""
        self.trainer.run_epoch(self._steps(rows, generator), validate=lambda _: self._validated(None, None))
        self.model.eval()

    def _steps(self, rows: WeightedRows, generator: torch.Generator) -> Iterator[Step]:
        source, noise = rows.on(self.device, self.precision).source, None
        if self.device.type != "cpu":
            seed = generator.initial_seed() + self.trainer.epoch
            noise = torch.Generator(self.device).manual_seed(seed)
        self.trainer.examples = len(source)
        self.model.to(self.device, self.precision)
        yield from steps_in_memory(source, self.batch_size, generator, noise)

    def _validated(self, rows: WeightedRows | None, context: Batch | None) -> float | None:
        """The NLL of the labels as the model predicts now; rows count by their weights, as in training.

        Many rows take fewer draws, since this is done every epoch and the rows alone make a steady mean.
        """
        self.model.cpu().eval()
        found = None
        if rows is not None:
            draws = min(max(_VALIDATION_PASSES // len(rows.data.labels), 2), _VALIDATION_DRAWS)
            inputs = rows.data.inputs.to(self.precision)
            prediction = self.model.predict(inputs, draws=draws, context=context)
            found = nll(prediction.probabilities, rows.data.labels, rows.weights)
        self.model.double()
        return found
