"""The folder of a run: named by the hash of its configuration, read by status and table."""

import json
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from totalcal.errors import InputError, UnreadableFileError
from totalcal.files import read_json, sha256_of, write_whole
from totalcal_lab.records.store import Line, append_line, read_lines, read_records

ATTEMPTS = 2
_LOCK_PATIENCE = 0.5  # `state` holds the lock for an instant: whoever wants to work outwaits it
_ENDS = ("failed", "finished", "asked")
_ASIDE = ".damaged"
_AGAIN = "Give the same command, totalcal-lab run, again: it makes again what is damaged."


class State(StrEnum):
    """How far a run is."""

    DONE = "done"
    DAMAGED = "damaged"
    RUNNING = "running"
    FAILED = "failed"
    STOPPED = "stopped"
    WAITING = "waiting"


@dataclass(frozen=True)
class Timing:
    """What happened in a run and when: asked, started, epoch, trained, failed, finished.

    Kept apart, so that everything else can be compared bit for bit. A damaged file says nothing, as if there
    were none.
    """

    file: Path

    def note(self, event: str, **details: Any) -> None:
        append_line(self.file, {"event": event, "time": time.time(), **details})

    @property
    def events(self) -> list[Line]:
        try:
            return _events(self.file)
        except InputError:
            return []

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


@dataclass(frozen=True)
class FileOfRun:
    """A file or folder by its name, beneath the folder of the run that is asked for it."""

    name: str

    def __get__(self, run: "RunFolder", _: type) -> Path:
        return run.path / self.name


@dataclass(frozen=True)
class RunFolder:
    """What a run leaves behind, file by file."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    config_file = FileOfRun("config.json")
    history_file = FileOfRun("history.jsonl")
    records_file = FileOfRun("records.jsonl")
    corruptions_file = FileOfRun("corruptions.jsonl")
    domain_file = FileOfRun("domain.jsonl")
    checkpoints = FileOfRun("checkpoints")
    failures_file = FileOfRun("failed.jsonl")
    done_file = FileOfRun("done")

    @property
    def timing(self) -> Timing:
        return Timing(self.path / "timing.jsonl")

    def plan(self, config: dict[str, Any]) -> None:
        """Make the folder with its configuration; one that is there already stays as it is.

        A file that cannot be read is set aside as `NAME.damaged`: it stops neither this run nor the others.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        for file in (
            self.config_file,
            self.timing.file,
            self.failures_file,
            self.corruptions_file,
            self.domain_file,
        ):
            if why_unreadable(file):
                _set_aside(file)
        self._reopen_if_nets_are_damaged()
        if not self.config_file.exists():
            self.configure(config)

    def configure(self, config: dict[str, Any]) -> None:
        """Write the configuration, whatever stands there: whoever does the work knows it."""
        write_whole(self.config_file, json.dumps(config, indent=2, ensure_ascii=False) + "\n")

    def _reopen_if_nets_are_damaged(self) -> None:
        """A finished run whose net is not the one it left goes on from its epoch before, to the same bits."""
        damaged = self._damaged_nets() if self.done_file.exists() else []
        for net in filter(_is_there, damaged):
            _set_aside(net)
        if damaged:
            self.reopen()

    def set_nets_aside(self) -> None:
        """The run has to begin again."""
        for net in sorted(self.checkpoints.glob("*.pt")):
            _set_aside(net)

    def reopen(self) -> None:
        """What was done is to be done again, since some of what it left is no longer there."""
        self.done_file.unlink(missing_ok=True)

    @property
    def config(self) -> Line:
        """What the run was asked to do.

        Raises:
            InputError: the file is damaged.
        """
        return _config(self.config_file)

    @property
    def set_aside(self) -> list[str]:
        """The files that were damaged and made again."""
        return sorted(str(file.relative_to(self.path)) for file in self.path.rglob(f"*{_ASIDE}"))

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
        """The marker that the run is done holds the digests of what it vouches for.

        Those of its nets, which hold times, stand with the times: the marker is the same whenever it is made.
        """
        lost = [_missing(file) for file in self._needed if not file.is_file()]
        if lost:
            raise InputError(f"the run is not done: {' '.join(lost)} {_AGAIN}")
        self.failures_file.unlink(missing_ok=True)
        nets = sorted(file for file in self.checkpoints.glob("[!.]*") if file.suffix != _ASIDE)
        self.timing.note("finished", nets=self._digests(nets))
        kept = [self.config_file, self.history_file, self.records_file]
        write_whole(self.done_file, json.dumps({"sha256": self._digests(kept)}, indent=1) + "\n")

    @property
    def _needed(self) -> list[Path]:
        """What a finished run has: its configuration and, if that is of a model's training, its records."""
        is_training = (
            not why_unreadable(self.config_file) and self.config_file.exists() and "model" in self.config
        )
        return [self.config_file, self.records_file] if is_training else [self.config_file]

    def _digests(self, files: Iterable[Path]) -> dict[str, str]:
        return {str(file.relative_to(self.path)): _digest(file) for file in files if file.is_file()}

    @property
    def damage(self) -> list[str]:
        """What of a finished run is missing or not what it wrote; nothing where there is no marker.

        Nets may be deleted to save space; a net that is there and was changed is one of `damaged_nets`.
        """
        if not self.done_file.exists():
            return []
        try:
            vouched = dict(json.loads(self.done_file.read_bytes())["sha256"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return [f"{self.done_file.name} is damaged."]
        found = [_mismatch(self.path / name, digest) for name, digest in vouched.items()]
        found += [_missing(file) for file in self._needed if file.name not in vouched]
        return [reason for reason in found if reason]

    @property
    def damaged_nets(self) -> list[str]:
        """Which checkpoints are not those the finished run left: nothing may be built from them."""
        return [_mismatch(net, "") for net in self._damaged_nets()]

    def _damaged_nets(self) -> list[Path]:
        finished = [event for event in self.timing.events if event["event"] == "finished"]
        nets = (finished[-1].get("nets") if finished else None) or {}
        vouched = {self.path / name: digest for name, digest in nets.items()}
        there = {net: digest for net, digest in vouched.items() if _is_there(net)}
        last = self.checkpoints / "last.pt"  # in whose place the epoch before would be read
        lost = [last] if there and last in vouched and last not in there else []
        return lost + [net for net, digest in there.items() if _mismatch(net, digest)]

    @property
    def is_settled(self) -> bool:
        """Done, or given up."""
        return self.is_done or len(self.failures) >= ATTEMPTS

    @property
    def is_done(self) -> bool:
        """Finished, and what it left is what it wrote; else the next `totalcal-lab run` makes it again."""
        return self.done_file.exists() and not self.damage

    @property
    def failures(self) -> list[Line]:
        """The failures since the run was last asked for: `error` and `traceback` each."""
        try:
            return read_lines(self.failures_file)
        except InputError:
            return []

    @property
    def state(self) -> State:
        if self.is_done:
            return State.DONE
        if self._is_locked():
            return State.RUNNING
        if self.failures:
            return State.FAILED
        if self.damage or why_unreadable(self.config_file):
            return State.DAMAGED
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
        raise InputError(
            f"there is no folder of runs at {root}. Make one: totalcal-lab run digits --out {root}"
        )
    for config in sorted(root.glob("*/config.json")):
        yield RunFolder(config.parent)


def finished_runs(root: Path) -> list[RunFolder]:
    """The runs that are done, whole and readable, in an order that depends on their content alone."""
    return [run for run in run_folders(root) if run.is_done and not why_unreadable(run.config_file)]


def finished_records(root: Path) -> list[Line]:
    """The records of every finished run."""
    records = [record for run in finished_runs(root) for record in read_records(run.records_file)]
    if not records:
        raise InputError(f"no run in {root} has finished yet. See: totalcal-lab status {root}")
    return records


def damage_in_words(root: Path) -> list[str]:
    """One line per run that had finished and is left out, since what it left is not what it wrote."""
    found = [(run, [*run.damage, why_unreadable(run.config_file)]) for run in run_folders(root)]
    return [
        f"{run.name} is left out: {' '.join(filter(None, reasons))}".removesuffix(_AGAIN).rstrip()
        + f" {_AGAIN}"
        for run, reasons in found
        if any(reasons)
    ]


def why_unreadable(file: Path) -> str:
    """Why a file of JSON cannot be read; nothing where it can, or is not there."""
    try:
        if not file.exists():
            return ""
        if file.suffix == ".json":
            _config(file)
        elif file.name == "timing.jsonl":
            _events(file)
        else:
            read_lines(file)
    except InputError as error:
        return str(error)
    return ""


def _config(file: Path) -> Line:
    try:
        config = read_json(file)
    except UnreadableFileError as error:
        raise InputError(f"{error} {_AGAIN}") from error
    if not isinstance(config, dict):
        raise InputError(f"{file} is not the configuration of a run. {_AGAIN}")
    return config


def _events(file: Path) -> list[Line]:
    events = read_lines(file)
    for number, event in enumerate(events, start=1):
        kind = event.get("event")
        details = _DETAILS.get(kind, {}) if isinstance(kind, str) else {"event": lambda _: False}
        wanted = {"time": _is_number, **details}
        wrong = [name for name, fits in wanted.items() if not fits(event.get(name))]
        if wrong:
            raise InputError(f"{file}, event {number} has no {', '.join(sorted(wrong))}.")
    return events


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


_DETAILS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "epoch": {"epoch": _is_number, "seconds": _is_number},
    "trained": {"seconds": lambda value: isinstance(value, list) and all(map(_is_number, value))},
    "finished": {
        "nets": lambda value: (
            isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
        )
    },
}


def _set_aside(file: Path) -> None:
    file.replace(file.with_name(file.name + _ASIDE))


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a name that no file can have
        return False


def _missing(file: Path) -> str:
    return f"{file.name} is missing."


def _mismatch(file: Path, digest: str) -> str:
    if not _is_there(file):
        return _missing(file)
    return "" if _digest(file) == digest else f"{file.name} is not what the run wrote."


def _digest(file: Path) -> str:
    """SHA-256; a file that was not touched since is not read again."""
    state = file.stat()
    return _digest_at(file, state.st_mtime_ns, state.st_size, state.st_ino)


@lru_cache(maxsize=1 << 14)
def _digest_at(file: Path, *_: int) -> str:
    return sha256_of(file)
