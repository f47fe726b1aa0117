"""The demo: what calibration does for a plain net and an ETP, beside what one would pick instead.

Handwritten digits, of which 1,000 train, 400 are held out and 397 test; letters are from another domain.
Every method sees the same rows. "Single" methods cost one net at prediction, the ensembles five.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from totalcal.baselines import Ensemble, MCDropout, temperature_scaled
from totalcal.calibration import calibrate
from totalcal.data import digits, letters
from totalcal.models import model_named
from totalcal.models.process import TuringProcess
from totalcal.nets import mlp
from totalcal.report import (
    ASPECTS,
    Entry,
    Record,
    Summary,
    Table,
    by_seed,
    describe,
    paired_difference,
    show,
    summarise,
    unbeaten,
)
from totalcal.report.blocks import Chapter, Prose, Section
from totalcal.report.page import page
from totalcal.scores import auroc, ece, error, from_module, nll
from totalcal.training import train
from totalcal.types import Batch, Predictive

ROWS, TRAIN, HELD_OUT = 1797, 1000, 400
MEMBERS = 5
DROPOUT = 0.2
ENSEMBLES = (f"ensemble of {MEMBERS}", f"ensemble of {MEMBERS} + temperature")
ENTROPY = "auroc/entropy"
CALIBRATED = "calibrated softmax"
SHOWN = ("nll", "auroc", "ece", "error", ENTROPY)  # what a phone shows stands first


class SeedData(NamedTuple):
    """The data of one seed."""

    train: Batch
    held_out: Batch
    test: Batch
    letters: Tensor


def demo_records(seeds: int, epochs: int) -> Iterator[dict[str, Any]]:
    """One record per method and seed."""
    images, labels = digits()
    inputs, classes = _scaled(torch.from_numpy(images)), torch.from_numpy(labels)
    outside = _scaled(torch.from_numpy(letters(size=8, count=1000).inputs))
    for seed in range(seeds):
        order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(seed))
        parts = order.split([TRAIN, HELD_OUT, ROWS - TRAIN - HELD_OUT])
        fit, held_out, test = (Batch(inputs[part], classes[part]) for part in parts)
        rows = SeedData(fit, held_out, test, outside)
        for name, predict in _methods(rows, seed, epochs):
            yield {"task": "digits", "preset": "demo", "model": name, "seed": seed, **_scores(predict, rows)}


def _methods(rows: SeedData, seed: int, epochs: int) -> Iterator[tuple[str, Callable[[Tensor], Predictive]]]:
    """Each method by its name, trained."""
    nets = [_trained("softmax", rows, 100 * seed + member, epochs) for member in range(MEMBERS)]
    for name, model in (("softmax", nets[0]), ("etp", _trained("etp", rows, 100 * seed, epochs))):
        yield name, model.predict
        yield f"{name} + temperature", temperature_scaled(model, rows.held_out).predict
        yield f"calibrated {name}", calibrate(model, rows.train, rows.held_out, progress=False).predict
    dropout = _trained("softmax", rows, 100 * seed, epochs, DROPOUT).backbone
    yield "MC dropout", MCDropout(dropout, "logits").predict
    ensemble = Ensemble([from_module(net.backbone, "logits") for net in nets])
    yield ENSEMBLES[0], ensemble.predict
    yield ENSEMBLES[1], temperature_scaled(ensemble, rows.held_out).predict


def _trained(name: str, rows: SeedData, seed: int, epochs: int, dropout: float = 0.0) -> TuringProcess:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_named(name)(mlp(64, 10, hidden=(64,), dropout=dropout), num_classes=10)
        train(model, *rows.train, epochs=epochs, learning_rate=3e-3, batch_size=64)
    return model.eval()


def _scores(predict: Callable[[Tensor], Predictive], rows: SeedData) -> dict[str, float]:
    """Of the test digits; letters are told apart by what the method offers, and by entropy beside it."""
    inside, outside = predict(rows.test.inputs), predict(rows.letters)
    probabilities, labels = inside.probabilities, rows.test.labels
    by_entropy = auroc(inside.entropy, outside.entropy)
    knows = inside.domain is not None
    return {
        "error": error(probabilities, labels),
        "nll": nll(probabilities, labels),
        "ece": float(ece(probabilities, labels)),
        "auroc": auroc(inside.unfamiliarity, outside.unfamiliarity) if knows else by_entropy,
        ENTROPY: by_entropy,
        "majority_error": 1 - float(labels.bincount().max()) / len(labels),
    }


def demo_page(records: Sequence[Record]) -> tuple[str, str, Table]:
    """The verdict in words, the whole page, and its table."""
    words, table = verdict(records), demo_table(records)
    seeds = len({record["seed"] for record in records})
    lead = (
        f"{TRAIN} digits trained each net, {HELD_OUT} calibrated it, the others test it; letters are from "
        f"another domain. Means over {seeds} seeds, each with rows of its own."
    )
    section = Section(
        "verdict", "Who is calibrated, and who knows its domain", lead, [Prose(words, True), table]
    )
    chapter = Chapter("digits", "Handwritten digits", "demo", f"{seeds} seeds", [section])
    return words, page([chapter]), table


def demo_table(records: Sequence[Record]) -> Table:
    """A row per method; bold is what no other beats in a paired test over seeds."""
    values = {key: by_seed(records, key) for key in SHOWN}
    best = {key: unbeaten(key, values[key]) for key in SHOWN}
    rows = [
        (
            Entry(name),
            *(_entry(key, values[key][name].values(), name in best[key]) for key in SHOWN),
        )
        for name in values["error"]
    ]
    titles = ["method", *(_title(key) for key in SHOWN)]
    caption = (
        "OOD AUROC is by familiarity where a method has it, else by entropy. Marked: not beaten in paired "
        "tests over seeds, corrected for their number (Holm)."
    )
    return Table.of_rows("demo", caption, titles, rows)


def _entry(key: str, values: Iterable[float], bold: bool) -> Entry:
    summary = summarise(values)
    return Entry(show(key, summary, _digits(key)), bold, sort=summary.mean)


def verdict(records: Sequence[Record]) -> str:
    """What the numbers say: of the methods that cost one net, of all, and of what more nets buy."""
    names = list(dict.fromkeys(str(record["model"]) for record in records))
    single = [name for name in names if name not in ENSEMBLES]
    one, every = (_sentence(records, chosen) for chosen in (single, names))
    of_all = "the same." if one == every else every
    return f"Of methods that cost one net, {one} Of all methods, {of_all}{_price(records, names)}"


def _price(records: Sequence[Record], names: Sequence[str]) -> str:
    """A fair ensemble beside the first of its nets, calibrated."""
    many, single = ENSEMBLES[1], CALIBRATED
    if many not in names or single not in names:
        return ""
    told = []
    for key in ASPECTS.values():
        values = by_seed(records, key)
        theirs, ours = (summarise(values[name].values()) for name in (many, single))
        difference = paired_difference(values[many], values[single])
        told.append(
            f"{_title(key)} {_shown(key, theirs)} against {_shown(key, ours)} ({difference.in_words()})"
        )
    return f" At {MEMBERS} times the cost, {many} compares with {single} as follows: {'; '.join(told)}."


def _shown(key: str, summary: Summary) -> str:
    return show(key, summary._replace(std=math.nan), _digits(key)) + (" %" if describe(key).percent else "")


def _digits(key: str) -> int | None:
    return 3 if key == "nll" else None


def _sentence(records: Sequence[Record], names: Sequence[str]) -> str:
    found = {aspect: unbeaten(key, by_seed(records, key), among=names) for aspect, key in ASPECTS.items()}
    if len({record["seed"] for record in records}) < 2:
        return "one seed cannot tell who is better."
    if everywhere := sorted(set.intersection(*found.values())):
        best = " and ".join(everywhere) + (" are" if len(everywhere) > 1 else " is")
        return f"only {best} unbeaten in all of fit (NLL), calibration (ECE) and OOD detection."
    parts = (f"in {aspect} {', '.join(sorted(best))}" for aspect, best in found.items())
    return f"none is unbeaten in all three aspects; unbeaten are {'; '.join(parts)}."


def run_demo(seeds: int, epochs: int, on_record: Callable[[Record], None]) -> list[Record]:
    """All runs of the demo, one after the other."""
    records: list[Record] = []
    for record in demo_records(seeds, epochs):
        on_record(record)
        records.append(record)
    return records


def _title(key: str) -> str:
    return "by entropy" if key == ENTROPY else describe(key).title


def _scaled(pictures: Tensor) -> Tensor:
    return (pictures.float().flatten(1) - 128) / 96
