"""How far a grid is, read from its run folders alone, whichever engine or machine works on them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from totalcal.records.folders import RunFolder, State
from totalcal.records.labels import place
from totalcal.records.lines import Line

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
    trained = [event["epoch"] for event in folder.timing if event["event"] == "epoch"]
    return RunProgress(
        (config["task"], config["preset"], config["model"]),
        folder.name,
        config["seed"],
        folder.state,
        epochs,
        max(trained, default=-1) + 1,
        _seconds(folder, epochs),
        failures[-1]["error"] if failures else "",
    )


def _seconds(folder: RunFolder, epochs: int) -> float | None:
    """What the whole run took, or will take by its epochs so far."""
    timing = folder.timing
    if len(timing) >= 2 and timing[-1]["event"] == "finished" and folder.starts == 1:
        return float(timing[-1]["time"] - timing[0]["time"])
    seconds = folder.epoch_seconds
    return median(seconds) * epochs if seconds else None
