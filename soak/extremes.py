"""Extreme numbers through every door: 1e20, 1e38, infinity, NaN, subnormal, whole and half-precision numbers.

    python soak/extremes.py

A case ends in the right answer or in a `TotalcalError`. An answer with NaN or infinity in it is wrong, and so
is one that moved the ordinary rows beside the extreme one, or left the model other than it was.
"""

import copy
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import totalcal
from totalcal import scores
from totalcal.decisions import Gate
from totalcal.decisions.monitor import Monitor, watched_scores
from totalcal.decisions.sets import PredictionSets
from totalcal.errors import InputError, TotalcalError
from totalcal.models.process import TuringProcess
from totalcal.nets import mlp
from totalcal.types import Batch, ContextUse, Predictive

COLUMNS = ("right", "clear", "traceback", "wrong")
LOSING = COLUMNS[2:]
MODELS = ("softmax", "bnn", "edl", "neural_process", "enp", "anp", "etp")
WIDTH, CLASSES, ROWS = 4, 3, 80
SINGLE, DOUBLE, HALF, BRAIN = torch.float32, torch.float64, torch.float16, torch.bfloat16

VALUES: dict[str, tuple[float, torch.dtype]] = {
    "0": (0.0, SINGLE),
    "1e-45": (1e-45, SINGLE),
    "1e-40": (1e-40, SINGLE),
    "1e6": (1e6, SINGLE),
    "1e10": (1e10, SINGLE),
    "1e19": (1e19, SINGLE),
    "1e20": (1e20, SINGLE),
    "-1e20": (-1e20, SINGLE),
    "1e30": (1e30, SINGLE),
    "3e38": (3e38, SINGLE),
    "infinity": (float("inf"), SINGLE),
    "-infinity": (float("-inf"), SINGLE),
    "NaN": (float("nan"), SINGLE),
    "1e-310, double": (1e-310, DOUBLE),
    "1e20, double": (1e20, DOUBLE),
    "1e300, double": (1e300, DOUBLE),
    "65504, half": (65504.0, HALF),
    "6e-8, half": (6e-8, HALF),
    "infinity, half": (float("inf"), HALF),
    "3e38, bfloat16": (3e38, BRAIN),
    "255, uint8": (255, torch.uint8),
    "2^62, int64": (2**62, torch.int64),
    "-2^31, int32": (-(2**31), torch.int32),
}


class Wrong(Exception):  # noqa: N818
    """An answer that should not have been given."""


class World(NamedTuple):
    """A model, and ordinary rows."""

    model: TuringProcess
    inputs: Tensor
    labels: Tensor

    @property
    def context(self) -> Batch | None:
        needed = self.model.context_use is not ContextUse.NONE
        return Batch(self.inputs[:20], self.labels[:20]) if needed else None


def world(name: str, remembers: bool = False) -> World:
    """A copy, which may be changed."""
    return copy.deepcopy(shared_world(name, remembers))


@cache
def shared_world(name: str, remembers: bool = False, dtype: torch.dtype = SINGLE) -> World:
    """For predictions, which must leave it as it was."""
    torch.manual_seed(0)
    inputs = torch.randn(ROWS, WIDTH)
    labels = inputs[:, :CLASSES].argmax(1)
    model = getattr(totalcal, name)(mlp(WIDTH, CLASSES, hidden=(8,)), num_classes=CLASSES)
    if remembers and model.context_use is ContextUse.NONE:
        totalcal.remember(model, (inputs, labels), (inputs.flip(0), labels.flip(0)), progress=False)
    return World(model.to(dtype), inputs.to(dtype), labels)


def beside(rows: Tensor, value: str) -> Tensor:
    """Ordinary rows with one that holds the value everywhere, in the type of the value."""
    number, dtype = VALUES[value]
    mixed = rows[:6].to(dtype)
    mixed[2] = number
    return mixed


def single(value: str) -> Tensor:
    """The value in float32, where a larger one is infinite."""
    number, dtype = VALUES[value]
    return torch.tensor(number, dtype=dtype).to(SINGLE)


# -- what an answer must be


def check_prediction(found: Predictive) -> None:
    p = found.probabilities
    terms = {"p": p, "entropy": found.entropy, "information": found.mutual_information}
    terms |= dict(zip(("reducible", "irreducible", "data"), found.decompose(), strict=True))
    if found.domain is not None:
        terms |= {"familiarity": found.familiarity, "unfamiliarity": found.unfamiliarity}
    for name, values in terms.items():
        if not values.isfinite().all():
            raise Wrong(f"the {name} is not finite")
    if not torch.allclose(p.sum(-1), torch.ones(len(p), dtype=p.dtype)):
        raise Wrong("probabilities do not sum to 1")


def check_others(found: Predictive, alone: Predictive, rows: int) -> None:
    """The rows beside an extreme one are predicted as without it."""
    others = [row for row in range(rows) if row != 2]
    if not torch.allclose(found.probabilities[others], alone.probabilities[others], atol=1e-4):
        raise Wrong("the rows beside it have other probabilities")
    if found.domain is not None and not torch.allclose(found.familiarity[others], alone.familiarity[others]):
        raise Wrong("the rows beside it have another familiarity")


def kept(model: TuringProcess) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def unmoved(model: TuringProcess, before: dict[str, Tensor]) -> bool:
    after = model.state_dict()
    return after.keys() == before.keys() and all(torch.equal(after[name], before[name]) for name in before)


# -- doors


Door = Callable[[str], None]


def predicting(name: str, call: Callable[[World, Tensor], Predictive], remembers: bool = False) -> Door:
    def case(value: str) -> None:
        here = shared_world(name, remembers)
        rows, before = beside(here.inputs, value), kept(here.model)
        found = call(here, rows)
        check_prediction(found)
        if not unmoved(here.model, before):
            raise Wrong("predicting changed the model")
        sound = rows.clone()
        sound[2] = sound[1]
        check_others(found, call(here, sound), len(rows))

    return case


def in_half(name: str, dtype: torch.dtype) -> Door:
    def case(value: str) -> None:
        here = shared_world(name, dtype=dtype)
        check_prediction(here.model.predict(beside(here.inputs, value), draws=0, context=here.context))

    return case


def memorising(name: str, remembers: bool) -> Door:
    """A write either succeeds or leaves all as it was; either way ordinary rows are predicted afterwards."""

    def case(value: str) -> None:
        here = world(name, remembers)
        number, dtype = VALUES[value]
        rows = here.inputs.to(dtype)
        rows[60] = number  # in the second of the blocks
        before = kept(here.model)
        try:
            (here.model.memorise if remembers else here.model.absorb_context)(rows, here.labels)
        except TotalcalError:
            if not unmoved(here.model, before):
                raise Wrong("the refused write changed the model") from None
            raise
        finally:
            check_prediction(here.model.predict(here.inputs[:6], context=here.context))

    return case


def absorbing(value: str) -> None:
    """The embedding itself is extreme."""
    here = world("etp")
    before = kept(here.model)
    embedding = torch.zeros(5, CLASSES)
    embedding[2] = single(value)
    try:
        movement = here.model.absorb(embedding, here.labels[:5])
        if not movement.distances.isfinite().all():
            raise Wrong("the movement is not finite")
    except TotalcalError:
        if {k: v for k, v in kept(here.model).items() if not torch.equal(v, before[k])}.keys() - {
            "latent.write_seed"
        }:
            raise Wrong("the refused write changed the model") from None
        raise
    finally:
        check_prediction(here.model.predict(here.inputs[:6]))


def remembering(name: str, place: str) -> Door:
    def case(value: str) -> None:
        here = world(name)
        number, dtype = VALUES[value]
        rows = here.inputs.to(dtype)
        rows[7] = number
        sets = {"train": here.inputs, "held_out": here.inputs.flip(0)} | {place: rows}
        before = here.model.domain
        try:
            totalcal.remember(
                here.model, (sets["train"], here.labels), (sets["held_out"], here.labels), progress=False
            )
        except TotalcalError:
            if here.model.domain is not before:
                raise Wrong("the refused memory was kept") from None
            raise
        found = here.model.predict(here.inputs, draws=0)
        check_prediction(found)
        if len(found.unfamiliarity.unique()) < 10:
            raise Wrong("the memory tells no rows apart any more")

    return case


def training(call: Callable[..., Any]) -> Door:
    def case(value: str) -> None:
        here = world("etp")
        number, dtype = VALUES[value]
        rows = here.inputs.to(dtype)
        rows[7] = number
        call(here.model, rows, here.labels, epochs=2, batch_size=20)
        if not all(weight.isfinite().all() for weight in here.model.parameters()):
            raise Wrong("weights are not finite")
        check_prediction(here.model.predict(here.inputs))

    return case


def fitted(model: TuringProcess, inputs: Tensor, labels: Tensor, **options: Any) -> None:
    totalcal.fit(model, (inputs, labels), progress=False, **options)


def saving(value: str) -> None:
    """A weight that is not finite is refused on the way out."""
    here = world("etp")
    with torch.no_grad():
        next(here.model.parameters()).view(-1)[0] = single(value)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.totalcal"
        totalcal.save(here.model, path)
        back = totalcal.load(path).process
    if not all(weight.isfinite().all() for weight in back.parameters()):
        raise Wrong("the file passes on weights that are not finite")
    check_prediction(back.predict(here.inputs[:6], draws=0))


def gating(value: str) -> None:
    here = shared_world("softmax", remembers=True)
    gate = Gate.fit(here.model, here.inputs, here.labels, score="unfamiliarity")
    decisions = gate.decide(here.model, beside(here.inputs, value))
    if any("nan" in reason or "inf " in reason for reason in decisions.reasons):
        raise Wrong(f"a reason that says nothing: {decisions.reasons}")


def fitting_a_gate(value: str) -> None:
    here = shared_world("softmax")
    rows = here.inputs.to(VALUES[value][1])
    rows[3] = VALUES[value][0]
    gate = Gate.fit(here.model, rows, here.labels)
    gate.decide(here.model, here.inputs)


def making_sets(value: str) -> None:
    here = shared_world("softmax")
    sets = PredictionSets.fitted(here.model.predict(here.inputs), here.labels)
    found = sets(here.model.predict(beside(here.inputs, value)))
    if not found.any(1).all():
        raise Wrong("an empty set")


def watching(value: str) -> None:
    here = shared_world("softmax", remembers=True)
    monitor = Monitor.start(watched_scores(here.model.predict(here.inputs)))
    status = monitor.update(watched_scores(here.model.predict(beside(here.inputs, value))))
    if not np.isfinite(list(status.capital.values())).all():
        raise Wrong("capital that is not finite")


def watching_scores(value: str) -> None:
    monitor = Monitor.start({"entropy": np.linspace(0.01, 1, 200)})
    before = monitor.as_json()
    try:
        status = monitor.update({"entropy": np.array([0.1, VALUES[value][0]])})
    except TotalcalError:
        if monitor.as_json() != before:
            raise Wrong("the refused rows were counted") from None
        raise
    if not np.isfinite(list(status.capital.values())).all():
        raise Wrong("capital that is not finite")


def judging(kind: str) -> Door:
    def case(value: str) -> None:
        number, dtype = VALUES[value]
        outputs = torch.rand(30, CLASSES).add(0.5).to(dtype)
        outputs[4] = number
        outputs[5, 1] = number
        verdict = scores.evaluate_outputs(outputs, torch.arange(30) % CLASSES, kind, {"flat": outputs[:9]})
        for name in ("error", "nll", "brier", "ece", "aurc"):
            if not np.isfinite(float(getattr(verdict, name))):
                raise Wrong(f"{name} is {getattr(verdict, name)}")

    return case


def ranking(value: str) -> None:
    number, dtype = VALUES[value]
    inside, outside = torch.rand(20).to(dtype), torch.rand(20).to(dtype)
    outside[3] = number
    if not 0 <= scores.auroc(inside, outside) <= 1:
        raise Wrong("no AUROC")


def scaling(value: str) -> None:
    """Calibration of a net with an extreme number among its training rows."""
    here = world("softmax")
    rows = here.inputs.to(VALUES[value][1])
    rows[3] = VALUES[value][0]
    model = totalcal.calibrate(here.model.backbone, (rows, here.labels), (here.inputs + 1, here.labels))
    check_prediction(model.predict(here.inputs[:6]))


@cache
def _classifier() -> Any:
    here = world("etp")
    return totalcal.ETPClassifier(max_epochs=1).fit(here.inputs.double().numpy(), here.labels.numpy())


def classifying(value: str) -> None:
    """The face of scikit-learn."""
    rows = beside(shared_world("etp").inputs, value).double().numpy()
    try:
        found = _classifier().predict_proba(rows)
    except ValueError as error:  # scikit-learn's own refusal, which its checks of estimators ask for
        raise InputError(str(error)) from error
    if not np.isfinite(found).all():
        raise Wrong("probabilities that are not finite")


def doors() -> Iterator[tuple[str, Door]]:
    ways: dict[str, Callable[[World, Tensor], Predictive]] = {
        "predict": lambda here, rows: here.model.predict(rows, context=here.context),
        "predict, means": lambda here, rows: here.model.predict(rows, draws=0, context=here.context),
        "moments": lambda here, rows: here.model.predict(rows, draws="moments", context=here.context),
    }
    for name in MODELS:
        for way, call in ways.items():
            yield f"{way}, {name}", predicting(name, call)
    for name in ("softmax", "etp"):
        for way, call in ways.items():
            yield f"{way}, {name} that remembers", predicting(name, call, remembers=True)
        yield f"predict in half, {name}", in_half(name, HALF)
        yield f"predict in bfloat16, {name}", in_half(name, BRAIN)
        yield f"predict in double, {name}", in_half(name, DOUBLE)
        yield f"memorise, {name}", memorising(name, remembers=False)
        yield f"memorise, {name} that remembers", memorising(name, remembers=True)
        yield f"remember, {name}, train", remembering(name, "train")
        yield f"remember, {name}, held_out", remembering(name, "held_out")
    yield "absorb", absorbing
    yield "train", training(totalcal.train)
    yield "fit", training(fitted)
    yield "save", saving
    yield "Gate.decide", gating
    yield "Gate.fit", fitting_a_gate
    yield "PredictionSets", making_sets
    yield "Monitor", watching
    yield "Monitor, scores", watching_scores
    for kind in ("logits", "probabilities", "concentration", "log_concentration"):
        yield f"evaluate_outputs, {kind}", judging(kind)
    yield "auroc", ranking
    yield "calibrate", scaling
    yield "ETPClassifier", classifying


def end_of(door: Door, value: str) -> tuple[str, str]:
    """How a case ends, and what it said."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            door(value)
    except TotalcalError as error:
        return "clear", str(error)
    except Wrong as error:
        return "wrong", str(error)
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"
    return "right", ""


def run() -> tuple[Counter[str], list[str]]:
    """All doors with all values: how the cases ended, and the lost ones in words."""
    ends: Counter[str] = Counter()
    lost = []
    for name, door in doors():
        for value in VALUES:
            end, said = end_of(door, value)
            ends[end] += 1
            if end in LOSING:
                lost.append(f"{end}: {name}, {value}: {said[:200]}")
    return ends, lost


def main() -> int:
    ends, lost = run()
    print(f"{'':16}{'tried':>8}" + "".join(f"{column:>11}" for column in COLUMNS))
    print(f"{'extreme numbers':16}{ends.total():8}" + "".join(f"{ends[column]:11}" for column in COLUMNS))
    print(*lost, sep="\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
