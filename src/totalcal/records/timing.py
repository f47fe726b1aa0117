"""What happened in a run and when: kept apart, so that everything else can be compared bit for bit."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from totalcal.records.lines import Line, append_line, read_lines

_ENDS = ("failed", "finished", "asked")


@dataclass(frozen=True)
class Timing:
    """The events of a run: asked, started, epoch, trained, failed, finished."""

    file: Path

    def note(self, event: str, **details: Any) -> None:
        append_line(self.file, {"event": event, "time": time.time(), **details})

    @property
    def events(self) -> list[Line]:
        return read_lines(self.file)

    @property
    def starts(self) -> int:
        """How often the run was begun or resumed."""
        return len(self._all("started"))

    @property
    def deaths(self) -> int:
        """How often the run was begun and never ended, since it was last asked for."""
        names = [event["event"] for event in self.events]
        last_end = max((place for place, name in enumerate(names) if name in _ENDS), default=-1)
        return names[last_end + 1 :].count("started")

    @property
    def epochs_done(self) -> int:
        return max((event["epoch"] + 1 for event in self._all("epoch")), default=0)

    @property
    def seconds_by_epoch(self) -> list[float]:
        """The time of training alone where it is known, else from one epoch's end to the next."""
        trained = self._all("trained")
        if trained:
            return list(trained[-1]["seconds"])
        return [event["seconds"] for event in self._all("epoch")]

    @property
    def seconds_in_all(self) -> float | None:
        """From start to finish; None for a run that was resumed or is not finished."""
        events = self.events
        if self.starts != 1 or events[-1]["event"] != "finished":
            return None
        return float(events[-1]["time"] - self._all("started")[0]["time"])

    def _all(self, name: str) -> list[Line]:
        return [event for event in self.events if event["event"] == name]
