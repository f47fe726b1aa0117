"""`remember`: a trained model gets a memory of its domain, in one pass over its training rows."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

from totalcal.errors import InputError
from totalcal.inputs import (
    call,
    check_labels,
    count,
    device_of,
    in_precision_of,
    labelled,
    moved,
    taken,
    types_in_words,
)
from totalcal.memory.domain_memory import PROTOTYPES, WIDEST, DomainMemory
from totalcal.memory.features import Tap, found_taps, tap
from totalcal.memory.rows import ObservedRows, row_keys
from totalcal.models.process import TuringProcess
from totalcal.parts.sampling import MEANS, sampling
from totalcal.ranks import share
from totalcal.scores.external import eval_mode
from totalcal.training.callbacks import is_wanted
from totalcal.training.sources import Data, Source, as_source

FEWEST_HELD_OUT = 4
_FEW = 8


@torch.no_grad()
def remember(
    model: TuringProcess,
    train: Data,
    held_out: Data,
    layers: str | Sequence[str] = "auto",
    *,
    promise: Data | None = None,
    prototypes: int = PROTOTYPES,
    widest: int = WIDEST,
    fade: float = 0.0,
    keep_rows: bool = True,
    batch_size: int = 256,
    progress: bool | None = None,
) -> DomainMemory:
    """Give a model a memory of its domain: from then on its predictions have a `familiarity`.

    Args:
        model: Any model of the family, trained, or a wrapped net. It is changed in place.
        train: The rows that it was trained on: (inputs, labels), a torch Dataset or DataLoader, or anything
            with `batches`. They pass the net once.
        held_out: Rows that it was not trained on, likewise; half of them make the tails, half the promise.
        promise: Others that it was not trained on, for the promise alone; all of `held_out` make the tails.
        layers: "auto" finds what ends a stage of the net; or names as in `model.backbone.named_modules()`,
            and "inputs" for the inputs themselves.
        prototypes: How many; a fifth of the training rows if they are few.
        widest: Features wider than this, all layers together, are projected at random.
        fade: τ, which turns fading on: the belief becomes a mixture with Dir(1), which has the weight τ / (p
            + τ). Off by default: fading costs calibration under corruption (docs/memory.md).
        keep_rows: Whether features of up to 256 held-out rows are kept. Predictions are the same without
            them, but no new class can be learned.
        batch_size: How many rows pass at once.
        progress: Whether to show a bar; on a terminal, unless given.

    Returns:
        The memory, which is `model.domain` now; printing it says which layers it took.

    Raises:
        InputError: If there are too few held-out rows, or no layer can be read.
        UnknownNameError: If there is no layer of a name.

    Example:
        >>> from totalcal import remember, softmax
        >>> inputs, labels = torch.randn(200, 4), torch.randint(3, (200,))
        >>> model = softmax(torch.nn.Linear(4, 3), num_classes=3)
        >>> memory = remember(model, (inputs[:100], labels[:100]), (inputs[100:], labels[100:]))
        >>> far_away = 100 + torch.randn(5, 4)
        >>> model.predict(far_away).familiarity
        tensor([0.0196, 0.0196, 0.0196, 0.0196, 0.0196], dtype=torch.float64)
    """
    if not isinstance(model, TuringProcess):
        raise InputError(
            f"a {type(model).__name__} cannot remember by itself: totalcal.calibrate gives it a memory "
            "and more, or put it into a model first, totalcal.softmax(net, num_classes)."
        )
    source, calibration = as_source(train), as_source(held_out)
    if len(calibration) < FEWEST_HELD_OUT:
        raise InputError(
            f"at least {FEWEST_HELD_OUT} held-out rows are needed, but got {len(calibration)}; with n of "
            "them nothing can be said below 2/n."
        )
    bar = Progress(console=Console(stderr=True), transient=True, disable=not is_wanted(progress))
    with eval_mode(model), bar:
        bar.add_task("remembering", total=len(source) + len(calibration))
        names = None if layers == "auto" else [layers] if isinstance(layers, str) else list(layers)
        taps = _taps(model, source, batch_size, names)
        memory = DomainMemory(taps, model.net_classes, prototypes, widest, fade)
        memory.to(device_of(model), _precision(model))
        if not bar.disable:
            bar.console.print(f"remembering {', '.join(map(str, taps))}", highlight=False)
        tap(model.backbone, taps)
        written = memory.writing()
        for batch in _observed(model, memory, source, batch_size, bar):
            memory.add(written, batch)
        memory.write(written.over_ranks())
        others = None if promise is None else _observed(model, memory, as_source(promise), batch_size, bar)
        memory.calibrate(_observed(model, memory, calibration, batch_size, bar), others, keep_rows)
        model.set_domain(memory)  # whole, at once: another thread may be predicting
    return memory


@torch.no_grad()
def last_layer(
    model: TuringProcess, train: Data, batch_size: int = 256
) -> tuple[Tap, Tensor, Tensor, Tensor]:
    """What the classifier decides by: its tap, and for each training row features, logits and label."""
    source = as_source(train)
    with eval_mode(model):
        last = _taps(model, source, batch_size, None)[-1]
        if last.kind != "vector":
            raise InputError(f"the last layer must give a vector per row, but {last} does not.")
        tap(model.backbone, [last])
        parts = [(model.observe(x, [last]), y) for x, y in labelled_batches(source, batch_size, model)]
    features = torch.cat([seen.features[last.name].values for seen, _ in parts])
    return last, features, torch.cat([seen.logits for seen, _ in parts]), torch.cat([y for _, y in parts])


def _taps(model: TuringProcess, source: Source, batch_size: int, names: list[str] | None) -> list[Tap]:
    first, _ = next(labelled_batches(source, batch_size, model))
    few = taken(first, slice(0, _FEW))
    with types_in_words(few), sampling(MEANS):
        return found_taps(model.backbone, few, lambda: call(model.backbone, few), names)


def _precision(model: TuringProcess) -> torch.dtype:
    """Distances are computed in the model's own precision, but never in half."""
    own = next((weight.dtype for weight in model.parameters()), torch.float32)
    return torch.float64 if own == torch.float64 else torch.float32


def _observed(
    model: TuringProcess, memory: DomainMemory, source: Source, batch_size: int, bar: Progress
) -> Iterator[ObservedRows]:
    for inputs, labels in labelled_batches(source, batch_size, model):
        if mine := len(labels):
            yield ObservedRows(model.observe(inputs, memory.taps), labels, row_keys(inputs))
        bar.advance(bar.task_ids[0], mine)


def labelled_batches(source: Source, batch_size: int, model: TuringProcess) -> Iterator[tuple[Any, Tensor]]:
    """The rows in their own order, on the model's device: those of this rank, in a data-parallel run."""
    where = device_of(model)
    for batch in source.batches(batch_size):
        inputs, labels = labelled(batch)
        if labels is None:
            raise InputError("a memory keeps means of classes: give the data as (inputs, labels).")
        check_labels(labels, count(inputs), model.net_classes)
        mine = in_precision_of(model.backbone, taken(inputs, share()))
        yield moved(mine, where), labels[share()].to(where)
