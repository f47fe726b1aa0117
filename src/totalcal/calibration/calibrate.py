"""One call: from a trained classifier to one that can be trusted."""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from totalcal.calibration.calibrator import CalibrationResult, NoCalibrator, fit_calibrator
from totalcal.calibration.splitting import (
    FewRowsWarning,
    HeldOutSplit,
    check_apart,
    rows_to_hold_out,
    split_held_out,
)
from totalcal.calibration.summary import CalibrationSummary
from totalcal.decisions.deciding import Choice, HeldOut, PerClass, decide, exceptions
from totalcal.decisions.discoveries import promise_of_discoveries
from totalcal.decisions.gate import Gate
from totalcal.decisions.monitor import Monitor, watched_scores
from totalcal.decisions.rules import check_share, rows_for
from totalcal.decisions.sets import PredictionSets, fewest_rows
from totalcal.errors import GateError, InputError, LabelError
from totalcal.files.saved import ClassName, Model
from totalcal.files.steps import Steps, columns_of
from totalcal.inputs import (
    Inputs,
    as_inputs,
    blocks,
    by_class,
    call,
    check_embedding,
    check_labels,
    count,
    device_of,
    forms_of,
    joined,
    labelled,
    moved,
    received_by,
    taken,
)
from totalcal.memory.domain import NoDomain
from totalcal.memory.remembering import remember
from totalcal.memory.rows import row_keys
from totalcal.models.process import TuringProcess
from totalcal.models.softmax import softmax
from totalcal.nets import log_probabilities
from totalcal.scores.arrays import Values, check_predictions, label_numbers, plain
from totalcal.scores.calibration import ece
from totalcal.scores.external import eval_mode
from totalcal.scores.fit import error, nll
from totalcal.scores.outputs import both_columns
from totalcal.training.history import context_for
from totalcal.training.sources import Data, Source, TensorSource, as_source, labelled_batch
from totalcal.types import DETERMINISTIC, Predictive

COVERAGE = 0.9
_CONTEXT_ROWS = 50
_SUMS_TO_ONE = 1e-3
_FEWEST = 10
_MEASURED = 200


def calibrate(
    net: Any,
    train: Data,
    held_out: Data,
    *,
    alpha: float = 0.05,
    beta: float = 0.05,
    decisions: Choice | None = None,
    groups: Sequence[Any] | None = None,
    classes: Sequence[ClassName] | None = None,
    layers: str | Sequence[str] = "auto",
    keep_rows: bool = True,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Model:
    """Give a trained classifier honest probabilities, a memory of its domain, and decisions with promises.

    The net is copied and left as it is; nothing is trained. The held-out rows are split inside: some fit the
    calibrator and the tails of the memory, the others are what promises rest on. `print(model)` says which
    rows served what, what was gained, and what is promised. No out-of-distribution data is needed.

    Args:
        net: A `torch.nn.Module` that gives logits, with one or many inputs, also one of Hugging Face; a model
            of the family; or a fitted estimator of totalcal, or a pipeline of scikit-learn that ends in one.
        train: The rows that it was trained on: (inputs, labels), a torch Dataset or DataLoader; (X, y) for an
            estimator. They pass the net once.
        held_out: Rows that it was not trained on, likewise.
        alpha: Of inputs like the held-out ones, at most so many are called "not my domain".
        beta: Of the others that are answered correctly, at most so many are "ask".
        decisions: Another choice: `PerClass()`, `Costs(…)`, `Risk(…)`, or `Thresholds({…})` by hand.
        groups: What each held-out row belongs to, such as a patient or a day: groups are not divided.
        classes: The names of the classes, in the order of the net's columns; an estimator knows its own.
        layers: Those that the memory reads, by name as in `net.named_modules()`; or "auto".
        keep_rows: Whether the memory keeps features of up to 256 held-out rows, which it needs to learn a new
            class and for nothing else. `totalcal inspect` says what a file retains of the data.
        batch_size: How many rows pass at once.
        seed: Of everything random.
        progress: Whether to show a bar; on a terminal, unless given.

    Returns:
        A `totalcal.Model`: predict, memorise, report, save. `totalcal.load` gives the same type.

    Raises:
        InputError: If a rate is not between 0 and 1, if the net gives probabilities and not logits, if most
            of the held-out rows are training rows, or if there are too few of them for anything.
        LabelError: If labels are not classes of the net.

    Example:
        >>> inputs, labels = torch.randn(400, 4), torch.randint(3, (400,))
        >>> net = torch.nn.Linear(4, 3)
        >>> model = calibrate(net, (inputs[:200], labels[:200]), (inputs[200:], labels[200:]), progress=False)
        >>> model.predict(100 + inputs[:2]).decision
        ['not my domain', 'not my domain']
    """
    check_share(alpha, "alpha")
    check_share(beta, "beta")
    start, train, held_out = _start(net, train, held_out, classes, batch_size)
    process = start.process
    inputs, labels = _gathered(held_out, batch_size)
    check_labels(labels, len(labels), process.net_classes)
    if start.preprocessing is None and start.steps is None:
        start = replace(start, takes=forms_of(inputs))
    source = as_source(train)
    overlap = check_apart(_keys(source, process.net_classes, batch_size), row_keys(inputs))
    if start.context is None:
        context = context_for(process, source, _CONTEXT_ROWS, torch.Generator().manual_seed(seed))
        start = replace(start, context=context)
    split = _split(inputs, labels, decisions, alpha, beta, groups, seed)
    fitting, promising = (
        (taken(inputs, places), labels[places]) for places in (split.fitting, split.promising)
    )
    with eval_mode(process):
        if _is_random(start, inputs):
            rows = labelled(next(iter(source.batches(_MEASURED))))[0]
            process.measure_default_draws(as_inputs(rows), start.context)
        before, found, fitted = _fit_calibrator(start, fitting, promising, batch_size, seed)
        memory = remember(
            process,
            train,
            fitting,
            layers,
            promise=promising,
            keep_rows=keep_rows,
            batch_size=batch_size,
            progress=progress,
        )
        notes = [f"{overlap:.1%} of the held-out rows are training rows as well"] if overlap else []
        return _finished(
            start,
            fitting[1],
            promising,
            split,
            before,
            found,
            fitted,
            decisions,
            rates=(alpha, beta),
            batch_size=batch_size,
            memory=(len(source), tuple(map(str, memory.taps))),
            notes=notes,
        )


def calibrate_probabilities(
    probabilities: Values,
    labels: Values,
    *,
    beta: float = 0.05,
    decisions: Choice | None = None,
    groups: Sequence[Any] | None = None,
    classes: Sequence[ClassName] | None = None,
    seed: int = 0,
) -> Model:
    """Calibrate anybody's probabilities: better ones, decisions and sets of classes from them.

    There is no memory of a domain, since nothing is known of the inputs: none of the verdicts is "not my
    domain". The model predicts from rows of probabilities.

    Args:
        probabilities: Of held-out rows, rows × classes; or of the positive class of two, a number per row.
        labels: Their classes: numbers, or names where `classes` has them.
        beta: Of the inputs that are answered correctly, at most so many are "ask".
        decisions: As in `calibrate`.
        groups: What each row belongs to: groups are not divided.
        classes: The names of the classes, in the order of the columns.
        seed: Of everything random.

    Returns:
        A `totalcal.Model`, as `calibrate` gives it.

    Raises:
        InputError: If the rows are not probabilities, or too few.

    Example:
        >>> sure = torch.tensor([[0.99, 0.01], [0.01, 0.99]]).repeat(100, 1)
        >>> labels = torch.tensor([0, 1, 1, 0, 0, 1, 0, 1]).repeat(25)  # wrong in a quarter of the rows
        >>> model = calibrate_probabilities(sure, labels)
        >>> bool(abs(model.predict(sure).confidence[0] - 0.75) < 0.03)
        True
    """
    check_share(beta, "beta")
    names = None if classes is None else tuple(classes)
    given, truth = check_predictions(both_columns(plain(probabilities)), label_numbers(labels, names))
    inputs, numbers = torch.from_numpy(given), torch.from_numpy(truth).long()
    positive = inputs[inputs > 0]
    floor = float(positive.min()) / 2 if bool((inputs == 0).any()) else 0.0
    process = softmax(log_probabilities(inputs.shape[1], floor), inputs.shape[1])
    start = Model(process.double().eval(), classes=names, takes=forms_of(inputs))
    split = _split(inputs, numbers, decisions, None, beta, groups, seed)
    fitting, promising = ((inputs[places], numbers[places]) for places in (split.fitting, split.promising))
    before, found, fitted = _fit_calibrator(start, fitting, promising, len(numbers), seed)
    return _finished(
        start,
        fitting[1],
        promising,
        split,
        before,
        found,
        fitted,
        decisions,
        rates=(0.5, beta),
        batch_size=len(numbers),
    )


def _start(
    net: Any, train: Any, held_out: Any, classes: Sequence[ClassName] | None, batch_size: int
) -> tuple[Model, Any, Any]:
    """A model as it is before calibration, of a copy of the net, and the data as it takes them."""
    names = None if classes is None else tuple(classes)
    if isinstance(net, Model):
        process = _bare_copy(net.process)
        model = replace(net, process=process, classes=names or net.classes, gate=None, sets=None)
        takes_rows = model.preprocessing is not None or model.steps is not None
        encoded = _encoded if takes_rows else _as_tensors
        return model, encoded(model, train, model.classes), encoded(model, held_out, model.classes)
    if isinstance(net, nn.Module):
        train, held_out = (_as_tensors(None, rows, names) for rows in (train, held_out))
        if isinstance(net, TuringProcess):
            return Model(_bare_copy(net), classes=names), train, held_out
        return Model(_wrapped(net, held_out, batch_size), classes=names), train, held_out
    fitted = _of_estimator(net, train)
    if fitted is not None:
        model = replace(fitted, process=_bare_copy(fitted.process))
        train, held_out = (_encoded(model, rows, names or model.classes) for rows in (train, held_out))
        return model, train, held_out
    raise InputError(
        f"a {type(net).__name__} is neither a torch module nor a classifier of totalcal. Calibrate what it "
        "predicts: totalcal.calibrate_probabilities(classifier.predict_proba(held_out), labels)."
    )


def _of_estimator(net: Any, train: Any) -> Model | None:
    """Of a fitted estimator of this package, a pipeline that ends in one, or a search that found one."""
    net = getattr(net, "best_estimator_", net)
    if hasattr(net, "as_model"):
        model: Model = net.as_model()
        return model
    steps = getattr(net, "steps", None)
    if not steps or not hasattr(steps[-1][1], "as_model"):
        return None
    before = Steps(net[:-1], columns_of(train[0])) if len(steps) > 1 else None
    last: Model = steps[-1][1].as_model()
    return replace(last, steps=before)


def _bare_copy(process: TuringProcess) -> TuringProcess:
    """Without the calibrator and the memory that it may have had."""
    found = copy.deepcopy(process)
    found.calibrator = NoCalibrator()
    found.set_domain(NoDomain())
    return found


def _wrapped(net: nn.Module, held_out: Data, batch_size: int) -> TuringProcess:
    """A plain net of as many classes as columns, or two for one, if what it gives are logits."""
    inputs, labels = labelled(next(iter(as_source(held_out).batches(batch_size))))
    with torch.no_grad(), eval_mode(net):
        output = call(net, received_by(net, as_inputs(inputs))).double().cpu()
    logits = by_class(output)
    check_embedding(logits.shape, count(as_inputs(inputs)), logits.shape[1])
    if _are_probabilities(output, logits, labels):
        raise InputError(
            "this net gives probabilities. Leave out its last softmax or sigmoid, so that it gives logits; "
            "or calibrate its outputs, totalcal.calibrate_probabilities(probabilities, labels)."
        )
    return softmax(net, logits.shape[1]).eval()


def _are_probabilities(output: Tensor, logits: Tensor, labels: Tensor | None) -> bool:
    """Whether rows sum to 1; or whether one number per row fits the labels better so than as a logit."""
    if output.shape == logits.shape:
        return bool((output >= 0).all()) and bool(((output.sum(-1) - 1).abs() < _SUMS_TO_ONE).all())
    if labels is None or bool(((output < 0) | (output > 1)).any()):
        return False
    truth, single = labels.double(), output.flatten()
    as_probability, as_logit = F.binary_cross_entropy, F.binary_cross_entropy_with_logits
    return bool(as_probability(single, truth) < as_logit(single, truth))


def _is_random(start: Model, inputs: Inputs) -> bool:
    """Whether predictions draw at all, so that how many draws are needed can be asked."""
    return _predicted(start, taken(inputs, slice(0, 2)), 2).sampling != DETERMINISTIC


def _encoded(model: Model, rows: Any, names: Sequence[ClassName] | None) -> TensorSource:
    """A table and its labels, after the steps and the standardisation of an estimator."""
    table, labels = rows
    return TensorSource(model.inputs(table), torch.as_tensor(label_numbers(labels, names)))


def _as_tensors(_: Any, rows: Any, names: Sequence[ClassName] | None) -> Any:
    """A pair, its labels as class numbers in a tensor; all else as it is."""
    if isinstance(rows, tuple) and len(rows) == 2:
        return rows[0], torch.as_tensor(label_numbers(rows[1], names))
    return rows


def _keys(source: Source, num_classes: int, batch_size: int) -> Tensor:
    """Of all training rows; their labels are looked at on the way, before any work."""
    keys = []
    for batch in map(labelled_batch, source.batches(batch_size)):
        check_labels(batch.labels, len(batch.labels), num_classes)
        keys.append(row_keys(batch.inputs))
    return torch.cat(keys)


def _gathered(held_out: Data, batch_size: int) -> tuple[Inputs, Tensor]:
    parts, labels = [], []
    for batch in as_source(held_out).batches(batch_size):
        inputs, truth = labelled(batch)
        if truth is None:
            raise LabelError("held-out rows need labels: give them as (inputs, labels).")
        parts.append(as_inputs(inputs))
        labels.append(truth.cpu())
    return joined(parts), torch.cat(labels)


def _split(
    inputs: Inputs,
    labels: Tensor,
    decisions: Choice | None,
    alpha: float | None,
    beta: float,
    groups: Sequence[Any] | None,
    seed: int,
) -> HeldOutSplit:
    """The split of the held-out rows; where they are too few for what is to be promised, that is said now.

    Both verdicts have rows enough if five of six are familiar and answered correctly.
    """
    needed = max(0 if alpha is None else rows_for(alpha), -(-rows_for(beta) * 6 // 5))
    if len(labels) < _FEWEST:
        raise InputError(
            f"there are {len(labels)} held-out rows, and nothing can be calibrated on so few: hold out "
            f"{rows_to_hold_out(needed)} for decisions at these rates."
        )
    split = split_held_out(inputs, labels, needed=needed, groups=groups, seed=seed)
    if decisions is None and len(split.promising) < needed:
        rates = "" if alpha is None else f"{alpha:.1%} of the inputs refused and "
        kept = 2 / (len(split.promising) * 5 / 6 + 1)
        warnings.warn(
            f"promises of {rates}{beta:.1%} of the right answers asked about take {needed} rows, and of the "
            f"{len(labels)} held out {len(split.promising)} can carry them: hold out "
            f"{rows_to_hold_out(needed)}, or allow {kept:.1%}.",
            FewRowsWarning,
            stacklevel=3,
        )
    return split


def _predicted(model: Model, inputs: Inputs, batch_size: int) -> Predictive:
    """Of rows that are encoded already."""
    bare = replace(model, preprocessing=None, steps=None)
    device = device_of(model.process)
    return Predictive.joined([bare.predict(moved(part, device)) for part in blocks(inputs, batch_size)])


def _fit_calibrator(
    start: Model, fitting: tuple[Inputs, Tensor], promising: Any, batch_size: int, seed: int
) -> tuple[dict[str, float], CalibrationResult, Predictive]:
    """The net's scores as it is, its calibrator, which it has from now on, and calibrated fitting rows."""
    before = _scores(_predicted(start, promising[0], batch_size), promising[1])
    raw = _predicted(start, fitting[0], batch_size)
    found = fit_calibrator(raw.belief.log_mean, fitting[1], seed=seed)
    start.process.calibrator = found.calibrator.to(raw.probabilities.device)
    return before, found, Predictive(start.process.calibrator(raw.belief))


def _scores(prediction: Predictive, labels: Tensor) -> dict[str, float]:
    probabilities = prediction.probabilities.cpu()
    return {
        "error": float(error(probabilities, labels)),
        "nll": float(nll(probabilities, labels)),
        "ece": float(ece(probabilities, labels).value),
    }


def _finished(
    start: Model,
    fitting_labels: Tensor,
    promising: tuple[Inputs, Tensor],
    split: HeldOutSplit,
    before: dict[str, float],
    found: CalibrationResult,
    fitting: Predictive,
    decisions: Choice | None,
    *,
    rates: tuple[float, float],
    batch_size: int,
    memory: tuple[int, tuple[str, ...]] = (0, ()),
    notes: Sequence[str] = (),
) -> Model:
    """The model with its decisions, its sets and the story of how it came about."""
    prediction = _predicted(start, promising[0], batch_size)
    names = start.classes or range(start.process.num_classes)
    rows = HeldOut(
        prediction,
        plain(promising[1]),
        fitting,
        plain(fitting_labels),
        tuple(names),
    )
    gate, promises = _gate(decisions, rows, *rates)
    sets, of_sets = _sets(rows, isinstance(decisions, PerClass))
    promises += of_sets
    if prediction.domain is not None:
        promises += filter(None, [promise_of_discoveries(len(rows.labels))])
    else:
        promises.append('no memory, so nothing is "not my domain": nothing is known but the probabilities')
    summary = CalibrationSummary(
        train_rows=memory[0],
        fitting_rows=len(split.fitting),
        promise_rows=len(split.promising),
        split=str(split),
        calibrator=str(found),
        before=before,
        after=_scores(prediction, promising[1]),
        layers=memory[1],
        promises=tuple(promises),
        notes=tuple(notes),
    )
    monitor = Monitor.start(watched_scores(prediction, rows.labels))
    return replace(start, gate=gate, sets=sets, summary=summary, monitor=monitor)


def _gate(choice: Choice | None, rows: HeldOut, alpha: float, beta: float) -> tuple[Gate | None, list[str]]:
    try:
        gate = decide(choice, rows, alpha, beta)
    except GateError as reason:
        if choice is not None:  # asked for, and so not left out in silence
            raise
        return None, [str(reason)]
    return gate, gate.promise.split("; ")


def _sets(rows: HeldOut, by_class: bool) -> tuple[PredictionSets | None, list[str]]:
    """The sets of classes, and what is promised of them."""
    if len(rows.labels) < rows_for(1 - COVERAGE):
        return None, []
    groups = rows.groups_of_true(rows_for(1 - COVERAGE)) if by_class else ()
    sets = PredictionSets.fitted(rows.prediction, rows.labels, COVERAGE, groups=groups)
    of = "inputs of each class" if len(set(groups)) > 1 else "inputs"
    said = f"sets of classes hold the true one for {COVERAGE:.0%} of {of}, or as you ask"
    alone = [group for group, each in enumerate(sets.by_group) if len(each) < fewest_rows(COVERAGE)]
    more = exceptions(groups, alone, rows.classes, "held to the threshold of all rows") if groups else []
    return sets, [said, *(f"of sets: {each}" for each in more)]
