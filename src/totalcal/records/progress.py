"""How far a grid is, read from its run folders alone, whichever engine or machine works on them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from totalcal.records.folders import RunFolder, State
from totalcal.records.labels import place
from totalcal.records.lines import Line
from totalcal.records.timing import Timing

Kind = tuple[str, str, str]  # task, preset, model


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
    config, failures = folder.config, folder.failures
    epochs = config["epochs"]
    return RunProgress(
        (config["task"], config["preset"], config["model"]),
        folder.name,
        config["seed"],
        folder.state,
        epochs,
        folder.timing.epochs_done,
        _seconds(folder.timing, epochs),
        failures[-1]["error"] if failures else "",
    )


def _seconds(timing: Timing, epochs: int) -> float | None:
    """What the whole run took, or will take by its epochs so far."""
    if timing.seconds_in_all is not None:
        return timing.seconds_in_all
    seconds = timing.seconds_by_epoch
    return median(seconds) * epochs if seconds else None
