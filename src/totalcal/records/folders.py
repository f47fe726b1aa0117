"""The folder of a run: named by the hash of its configuration, read by status, table and report."""

import json
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from totalcal.errors import InputError
from totalcal.records.lines import Line, append_line, read_lines
from totalcal.records.store import read
from totalcal.records.timing import Timing
from totalcal.whole_files import write_whole

ATTEMPTS = 2
_LOCK_PATIENCE = 0.5  # `state` holds the lock for an instant: whoever wants to work outwaits it


class State(StrEnum):
    """How far a run is."""

    DONE = "done"
    RUNNING = "running"
    FAILED = "failed"
    STOPPED = "stopped"
    WAITING = "waiting"


@dataclass(frozen=True)
class RunFolder:
    """What a run leaves behind, file by file."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def config_file(self) -> Path:
        return self.path / "config.json"

    @property
    def history_file(self) -> Path:
        return self.path / "history.jsonl"

    @property
    def records_file(self) -> Path:
        return self.path / "records.jsonl"

    @property
    def corruptions_file(self) -> Path:
        return self.path / "corruptions.jsonl"

    @property
    def timing(self) -> Timing:
        return Timing(self.path / "timing.jsonl")

    @property
    def artefacts_file(self) -> Path:
        return self.path / "artefacts.npz"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def failures_file(self) -> Path:
        return self.path / "failed.jsonl"

    @property
    def done_file(self) -> Path:
        return self.path / "done"

    def plan(self, config: dict[str, Any]) -> None:
        """Make the folder with its configuration; one that is there already stays as it is."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.config_file.exists():
            write_whole(self.config_file, json.dumps(config, indent=2, ensure_ascii=False) + "\n")

    @property
    def config(self) -> Line:
        config: Line = json.loads(self.config_file.read_text(encoding="utf-8"))
        return config

    def start(self) -> None:
        self.timing.note("started")

    def fail(self, error: BaseException) -> None:
        """Keep what went wrong; a run that failed twice is given up until it is asked for again."""
        first_line = str(error).partition("\n")[0]
        reason = f"{type(error).__name__}: {first_line}"
        self.timing.note("failed", error=reason)
        trace = "".join(traceback.format_exception(error))
        append_line(self.failures_file, {"error": reason, "traceback": trace})

    def give_up(self, error: BaseException) -> None:
        """No further attempt, whatever the count."""
        while not self.is_settled:
            self.fail(error)

    def ask(self) -> None:
        """Wanted, perhaps again: earlier failures and deaths no longer count."""
        self.failures_file.unlink(missing_ok=True)
        if self.timing.starts:
            self.timing.note("asked")

    def finish(self) -> None:
        self.failures_file.unlink(missing_ok=True)
        self.timing.note("finished")
        write_whole(self.done_file, "")

    @property
    def is_settled(self) -> bool:
        """Done, or given up."""
        return self.is_done or len(self.failures) >= ATTEMPTS

    @property
    def is_done(self) -> bool:
        return self.done_file.exists()

    @property
    def failures(self) -> list[Line]:
        """The failures since the run was last asked for: `error` and `traceback` each."""
        return read_lines(self.failures_file)

    @property
    def state(self) -> State:
        if self.is_done:
            return State.DONE
        if self._is_locked():
            return State.RUNNING
        if self.failures:
            return State.FAILED
        return State.STOPPED if self.timing.file.exists() else State.WAITING

    def lock(self) -> FileLock:
        """Whoever works in the folder holds this lock; the system frees it when the process dies."""
        return FileLock(self.path / ".lock", timeout=_LOCK_PATIENCE)

    def _is_locked(self) -> bool:
        try:
            with self.lock().acquire(blocking=False):
                return False
        except Timeout:
            return True


def run_folders(root: Path) -> Iterator[RunFolder]:
    """Every run beneath a folder, by name."""
    if not root.is_dir():
        raise InputError(f"there is no folder of runs at {root}. Make one: totalcal run digits --out {root}")
    for config in sorted(root.glob("*/config.json")):
        yield RunFolder(config.parent)


def finished_records(root: Path) -> list[Line]:
    """The records of every finished run, in an order that depends on their content alone."""
    records = [record for run in run_folders(root) if run.is_done for record in read(run.records_file)]
    if not records:
        raise InputError(f"no run in {root} has finished yet. See: totalcal status {root}")
    return records
