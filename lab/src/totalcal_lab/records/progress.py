"""What a folder of runs tells, whichever engine or machine works on it: how far the grid is, what is left of
it, what each model costs; and the records of finished runs, gathered in one file to keep.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from totalcal.errors import InputError, printable
from totalcal.report import Entry, Group, Record, Table
from totalcal_lab.records.corruptions import under_corruption
from totalcal_lab.records.domain import domain_lines
from totalcal_lab.records.folders import RunFolder, State, finished_records, finished_runs, why_unreadable
from totalcal_lab.records.labels import Column, in_order, place
from totalcal_lab.records.store import Line, read_lines, write_lines

if TYPE_CHECKING:
    from rich.console import Group as RichGroup


Kind = tuple[str, str, str]  # task, preset, model
PLAIN = "softmax"
_SIGNS = {
    State.DONE: ("●", "green"),
    State.DAMAGED: ("!", "red"),
    State.FAILED: ("✗", "red"),
    State.STOPPED: ("◌", "yellow"),
    State.WAITING: ("○", "dim"),
}


class RunProgress(NamedTuple):
    """One run at this moment; `seconds` is None until it is known what such a run takes."""

    kind: Kind
    name: str
    seed: int
    state: State
    epochs: int
    epochs_done: int
    seconds: float | None
    error: str
    set_aside: Sequence[str] = ()
    damaged_nets: Sequence[str] = ()

    @property
    def share(self) -> float:
        """How much of the run is done."""
        if self.state is State.DONE:
            return 1.0
        return min(self.epochs_done / self.epochs, 1.0) if self.epochs else 0.0

    def as_line(self) -> Line:
        """For other programs."""
        task, preset, model = self.kind
        fields = self._asdict()
        del fields["kind"]
        return {"task": task, "preset": preset, "model": model, **fields}


class GridProgress(NamedTuple):
    """All runs of a folder."""

    runs: Sequence[RunProgress]

    @property
    def counts(self) -> Counter[State]:
        return Counter(run.state for run in self.runs)

    @property
    def is_busy(self) -> bool:
        return self.counts[State.RUNNING] > 0

    @property
    def seconds_left(self) -> float | None:
        """At the pace of the runs so far, with as many at a time as now; None before anything is known."""
        known: dict[Kind, list[float]] = defaultdict(list)
        for run in self.runs:
            if run.seconds is not None:
                known[run.kind].append(run.seconds)
        if not known:
            return None
        typical = {kind: median(values) for kind, values in known.items()}
        otherwise = median(typical.values())
        waiting = (run for run in self.runs if run.state not in (State.DONE, State.FAILED))
        work = sum(typical.get(run.kind, otherwise) * (1 - run.share) for run in waiting)
        return work / max(1, self.counts[State.RUNNING])


def grid_progress(folders: Iterable[RunFolder]) -> GridProgress:
    """A look at every folder, in the order in which they are worked on: seed by seed."""
    runs = (run_progress(folder) for folder in folders)
    return GridProgress(sorted(runs, key=lambda run: (run.kind[:2], run.seed, place(run.kind[2]))))


def run_progress(folder: RunFolder) -> RunProgress:
    """How far one run is, from what its folder holds."""
    try:
        config = folder.config
        kind = config["task"], config["preset"], config["model"]
        seed, epochs = config["seed"], config["epochs"]
        if not (all(isinstance(name, str) for name in kind) and type(seed) is type(epochs) is int):
            raise InputError("a run is named by texts and whole numbers.")
    except (InputError, KeyError):
        why = why_unreadable(folder.config_file) or "config.json lacks what names a run."
        return RunProgress(("?", "?", "?"), folder.name, 0, State.DAMAGED, 0, 0, None, why)
    failures, timing = folder.failures, folder.timing
    by_epoch = timing.seconds_by_epoch
    return RunProgress(
        kind,
        folder.name,
        seed,
        folder.state,
        epochs,
        timing.epochs_done,
        timing.seconds_in_all or (median(by_epoch) * epochs if by_epoch else None),
        failures[-1].get("error", "") if failures else " ".join(folder.damage),
        folder.set_aside,
        folder.damaged_nets,
    )


def progress_view(progress: GridProgress) -> "RichGroup":
    """As people look at it: one row per model, one sign per seed, the time left; colours are not needed."""
    from rich import box
    from rich.console import Group as RichGroup
    from rich.table import Table as RichTable
    from rich.text import Text

    def sign(run: RunProgress) -> Text:
        if run.state is State.RUNNING:
            return Text(f"{run.share:.0%}", "cyan")
        return Text(*_SIGNS[run.state])

    rows: dict[Kind, list[RunProgress]] = defaultdict(list)
    for run in progress.runs:
        rows[run.kind].append(run)
    table = RichTable("task", "preset", "model", "seeds", box=box.SIMPLE_HEAD, pad_edge=False)
    for kind, runs in rows.items():
        table.add_row(*(Text(printable(part)) for part in kind), Text(" ").join(map(sign, runs)))
    counts = progress.counts
    parts = [f"{counts[State.DONE]} of {len(progress.runs)} done"]
    parts += [f"{counts[state]} {state}" for state in State if state is not State.DONE and counts[state]]
    if progress.is_busy and progress.seconds_left is not None:
        parts.append(f"about {duration(progress.seconds_left)} left")
    notes = [Text(", ".join(parts))]
    for run in progress.runs:
        if run.state in (State.FAILED, State.DAMAGED):
            named = (printable(f"{' '.join(run.kind)}, seed {run.seed}"), "red")
            notes.append(Text.assemble(named, printable(f" ({run.name}): {run.error}")))
        if run.set_aside:
            notes.append(Text(printable(f"{run.name}: set aside as {', '.join(run.set_aside)}")))
        if run.damaged_nets:
            again = f"{run.name}: {' '.join(run.damaged_nets)} Its last epoch is trained again if needed."
            notes.append(Text(printable(again)))
    return RichGroup(table, *notes)


def duration(seconds: float) -> str:
    """A time to plan by.

    >>> duration(42), duration(600), duration(20_000)
    ('42 s', '10 min', '5.6 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Cost(NamedTuple):
    """The median time per epoch; `ratio` is None where the plain net was not run."""

    seconds: float
    ratio: float | None
    epochs: int


def costs(folders: Iterable[RunFolder]) -> dict[Column, dict[str, Cost]]:
    """For each task and preset the cost of every model that was trained there with the preset's settings."""
    seconds: dict[Column, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for folder in folders:
        if not why_unreadable(folder.config_file):
            config = folder.config
            seconds[config["task"], config["preset"]][config["model"]] += folder.timing.seconds_by_epoch
    found: dict[Column, dict[str, Cost]] = {}
    for column, models in sorted(seconds.items()):
        typical = {model: median(each) for model, each in models.items() if each}
        plain = typical.get(PLAIN)
        found[column] = {
            model: Cost(value, value / plain if plain else None, len(models[model]))
            for model, value in typical.items()
        }
    return found


def cost_table(found: Mapping[Column, Mapping[str, Cost]]) -> Table:
    """One row per model, one column per task."""

    def shown(cost: Cost | None) -> str:
        if cost is None:
            return ""
        return f"{cost.seconds:.3g} s" + ("" if cost.ratio is None else f" ({cost.ratio:.2f}×)")

    labels = in_order(label for models in found.values() for label in models)
    rows = [
        [Entry(label), *(Entry(shown(models.get(label))) for models in found.values())] for label in labels
    ]
    header = ["", *(f"{task} ({preset})" for task, preset in found)]
    note = f"Seconds per epoch (median over epochs and seeds), and that relative to {PLAIN}."
    return Table(header, [Group("", rows)], [note])


_CORRUPTION_DIGITS = 6  # of 10,000 images; a line for each run, type and severity must be short


class Gathered(NamedTuple):
    """How many lines each file holds now."""

    records: int
    corruptions: int
    domain: int


def gather(runs: Path, target: Path) -> Gathered:
    """The records of the finished runs beneath `runs`, added to `target`; a run that was there is replaced.

    Beside `fashion.jsonl` stand `fashion.corruptions.jsonl` and `fashion.domain.jsonl` if there are any. What
    came from other folders, or from another machine, stays.
    """
    if target.suffix != ".jsonl":
        raise InputError(f"records are kept as JSON lines: a name that ends in .jsonl, not {target.name!r}.")
    target.parent.mkdir(parents=True, exist_ok=True)
    records = _merged(target, finished_records(runs), ("config",))
    finished = finished_runs(runs)
    spoiled = [_rounded(line) for line in under_corruption(finished)]
    corrupted = _merged(corruptions_file(target), spoiled, ("config", "corruption", "severity"))
    remembered = [_rounded(line) for line in domain_lines(finished)]
    domain = _merged(domain_file(target), remembered, ("config", "ood", "severity"))
    return Gathered(records, corrupted, domain)


def corruptions_file(records: Path) -> Path:
    """Where the corruption benchmark of gathered records is kept: beside them."""
    return records.with_suffix(".corruptions.jsonl")


def domain_file(records: Path) -> Path:
    """Where the domain benchmark of gathered records is kept: beside them."""
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


def _rounded(line: Record) -> Line:
    digits = _CORRUPTION_DIGITS
    return {key: round(value, digits) if isinstance(value, float) else value for key, value in line.items()}
