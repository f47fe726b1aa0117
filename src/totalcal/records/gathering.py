"""The records of finished runs in one file, small enough to be kept with the pages that show them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from totalcal.errors import InputError
from totalcal.records.corruptions import under_corruption
from totalcal.records.domain import domain_lines
from totalcal.records.folders import RunFolder, finished_records, finished_runs
from totalcal.records.labels import Record, place
from totalcal.records.store import Line, read_lines, write_lines

_CORRUPTION_DIGITS = 6  # of 10,000 images; a line for each run, type and severity must be short


class Gathered(NamedTuple):
    """How many lines each file holds now."""

    records: int
    corruptions: int
    domain: int


def gather(runs: Path, target: Path) -> Gathered:
    """The records of the finished runs beneath `runs`, added to `target`; a run that was there is replaced.

    Beside `fashion.jsonl` stand `fashion.timing.jsonl`, the hours, and `fashion.corruptions.jsonl` and
    `fashion.domain.jsonl` if there are any. What came from other folders, or from another machine, stays.
    """
    if target.suffix != ".jsonl":
        raise InputError(f"records are kept as JSON lines: a name that ends in .jsonl, not {target.name!r}.")
    target.parent.mkdir(parents=True, exist_ok=True)
    records = _merged(target, finished_records(runs), ("config",))
    finished = finished_runs(runs)
    hours = [_hours(run) for run in finished]
    _merged(timing_file(target), hours, ("config",))
    spoiled = [_rounded(line) for line in under_corruption(finished)]
    corrupted = _merged(corruptions_file(target), spoiled, ("config", "corruption", "severity"))
    remembered = [_rounded(line) for line in domain_lines(finished)]
    domain = _merged(domain_file(target), remembered, ("config", "ood", "severity"))
    return Gathered(records, corrupted, domain)


def timing_file(records: Path) -> Path:
    return records.with_suffix(".timing.jsonl")


def corruptions_file(records: Path) -> Path:
    return records.with_suffix(".corruptions.jsonl")


def domain_file(records: Path) -> Path:
    return records.with_suffix(".domain.jsonl")


def _merged(target: Path, lines: Sequence[Record], identity: tuple[str, ...]) -> int:
    found: dict[tuple[Any, ...], Record] = {}
    for line in [*read_lines(target), *lines]:
        found[tuple(line.get(key) for key in identity)] = line
    if found:
        write_lines(target, sorted(found.values(), key=lambda line: _order(line, identity)))
    return len(found)


def _order(line: Record, identity: tuple[str, ...]) -> tuple[Any, ...]:
    """Seed by seed, as the grid runs them; nothing depends on where or when a run took place."""
    run = line["task"], line["preset"], line["seed"], place(line["model"])
    return (*run, *(line.get(key) or 0 for key in identity))


def _hours(run: RunFolder) -> Line:
    config = run.config
    named = {key: config[key] for key in ("task", "preset", "model", "seed", "settings")}
    seconds = run.timing.seconds_by_epoch
    return {**named, "config": run.name, "epochs": len(seconds), "seconds": round(sum(seconds), 1)}


def _rounded(line: Record) -> Line:
    digits = _CORRUPTION_DIGITS
    return {key: round(value, digits) if isinstance(value, float) else value for key, value in line.items()}
