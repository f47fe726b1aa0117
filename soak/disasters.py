"""What disks, clocks and other processes do to a running program, on every kind of work that leaves files.

    python soak/disasters.py --cases 1000 --seed 0 --journal faults.jsonl
    python soak/disasters.py --case "0/12/torn write/fit"

Kills, ENOSPC and EIO, torn, lost and misdirected writes, bit rot, read-only disks, clocks, pauses, two of
everything, memory limits, many threads. After each the work is done again without a fault: what it leaves is,
byte for byte, what it leaves undisturbed, or an error says why not. Work is done in forks of this process,
which has imported all that the work imports: a kill costs milliseconds and strikes the work, not an import.
"""

import argparse
import contextlib
import ctypes
import errno
import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch

import totalcal
from journal import Journal
from totalcal.data import Arrays
from totalcal.data.preprocessing import Preprocessing
from totalcal.errors import TotalcalError
from totalcal.files.predicting.stream import predict_file
from totalcal.nets import mlp
from totalcal_lab.corruptions.stream import save_corrupted
from totalcal_lab.data.cache import read_decoded, write_decoded
from totalcal_lab.data.tasks import task
from totalcal_lab.grid.grid import Grid, grid_jobs
from totalcal_lab.records.store import append_line, read_lines

COLUMNS = ("right", "clear", "traceback", "wrong", "died", "hung")
LOSING = COLUMNS[2:]
MANY = 12  # kills of one piece of work
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where files cost no disk
SECONDS = 180  # of one piece of work
OF_THE_SYSTEM = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EAGAIN)  # no space, no thread, …
HEAVY = ("torch._dynamo", "pandas", "pyarrow.parquet", "sklearn.metrics")  # before a trial finds the rest
Results = dict[str, str]


class Work(NamedTuple):
    """Something to be done in a folder, again and again until it is done, and what it leaves there."""

    prepare: Callable[[Path], None]
    run: Callable[[Path], None]
    results: Callable[[Path], Results]


# -- the work


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    return inputs, inputs[:, :3].argmax(1)


def model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return totalcal.etp(mlp(4, 3, hidden=(8,)), num_classes=3)


def digests(folder: Path, *names: str) -> Results:
    files = [folder / name for name in names]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def fit(folder: Path) -> None:
    net = model()
    totalcal.fit(
        net, rows(), epochs=6, batch_size=16, checkpoints=folder / "run", checkpoint_steps=1, progress=False
    )
    state = b"".join(value.numpy().tobytes() for value in net.state_dict().values())
    (folder / "weights").write_text(hashlib.sha256(state).hexdigest())


def prepare_prediction(folder: Path) -> None:
    steps = Preprocessing((4,), torch.zeros(4), torch.ones(4), None)
    totalcal.save(model(), folder / "model.totalcal", preprocessing=steps)
    table = rows()[0].numpy().round(3).astype(str)
    (folder / "rows.csv").write_text("\n".join(["a,b,c,d", *map(",".join, table)]) + "\n")


def predict(output: str) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        if not (folder / output).exists():
            with contextlib.suppress(FileExistsError):
                predict_file(
                    folder / "model.totalcal", folder / "rows.csv", folder / output, chunk_size=6, workers=1
                )

    return run


TINY = {"epochs": 3, "train_limit": 60, "test_limit": 20, "ood_limit": 20, "joint_sets": 1}
SPOILED = ("contrast", "brightness", "pixelate", "gaussian_noise")
LEFT = ("config.json", "history.jsonl", "records.jsonl")


def prepare_grid(folder: Path) -> None:
    """Letters are drawn once per process: here, so that no fork has to."""
    task("digits").panel[0].make(None)


def grid(folder: Path) -> None:
    configs = Grid("digits", "laptop", TINY).configurations(["softmax", "temperature"], 1)
    jobs = grid_jobs(configs, folder / "runs")
    jobs.run("sequential")
    for run in jobs.folders():
        if not run.is_done:
            raise TotalcalError(run.failures[-1]["error"])


def grid_results(folder: Path) -> Results:
    runs = sorted(path.parent for path in folder.glob("runs/*/config.json"))
    return {
        f"{run.name}/{name}": digest
        for run in runs
        for name, digest in digests(run, *(name for name in LEFT if (run / name).exists())).items()
    }


def note_lines(folder: Path) -> None:
    there = {line["number"] for line in read_lines(folder / "lines.jsonl")}
    for number in range(40):
        if number not in there:
            append_line(folder / "lines.jsonl", {"number": number, "words": "ä" * number})


def lines(folder: Path) -> Results:
    return {str(line["number"]): line["words"] for line in read_lines(folder / "lines.jsonl")}


def save(folder: Path) -> None:
    for seed in range(12):
        totalcal.save(model(seed), folder / "model.totalcal")
        totalcal.load(folder / "model.totalcal")


def cache(folder: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (500, 28, 28), dtype=np.uint8)
    for number in range(4):
        place = folder / f"set{number}"
        if read_decoded(place) is None:
            write_decoded(place, Arrays(images, np.arange(500) % 10))


def cached(folder: Path) -> Results:
    found = [read_decoded(folder / f"set{number}") for number in range(4)]
    return {
        str(number): "" if each is None else hashlib.sha256(each.arrays.inputs.tobytes()).hexdigest()
        for number, each in enumerate(found)
    }


def spoil(folder: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 16, 16), dtype=np.uint8)
    missing = [name for name in SPOILED if not (folder / f"{name}.npy").exists()]
    list(save_corrupted(images, folder, missing))


def nothing(folder: Path) -> None:
    pass


WORKS = {
    "fit": Work(nothing, fit, lambda folder: digests(folder, "weights")),
    "predict": Work(prepare_prediction, predict("out.csv"), lambda folder: digests(folder, "out.csv")),
    "columns": Work(
        prepare_prediction, predict("out.parquet"), lambda folder: digests(folder, "out.parquet")
    ),
    "grid": Work(prepare_grid, grid, grid_results),
    "lines": Work(nothing, note_lines, lines),
    "save": Work(nothing, save, lambda folder: digests(folder, "model.totalcal")),
    "cache": Work(nothing, cache, cached),
    "corrupt": Work(nothing, spoil, lambda folder: digests(folder, *(f"{name}.npy" for name in SPOILED))),
}


# -- doing it, in a fork


class Child(NamedTuple):
    """A fork at work, and where it says how it ended."""

    pid: int
    pipe: int

    def end(self, patience: float = SECONDS) -> tuple[str, str]:
        """Wait for it: how it ended, and what it said."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                with os.fdopen(self.pipe, "rb") as pipe:
                    said = pipe.read()
                if os.WIFSIGNALED(status):
                    return "died", f"signal {os.WTERMSIG(status)}"
                if not said:
                    return "died", f"exit status {os.WEXITSTATUS(status)}, without a word"
                end, words = json.loads(said)
                return end, words
            time.sleep(0.005)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.pipe)
        return "hung", f"more than {patience:g} s"

    def kill(self) -> bool:
        """Whether it was still at work."""
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        return os.WIFSIGNALED(status)


def started(work: Callable[[], None], fault: Callable[[], None] = lambda: None) -> Child:
    """A fork that does the work after the fault has been laid."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    try:
        os.close(reading)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(null, stream)
        os.write(writing, json.dumps(_told(work, fault)).encode())
        os._exit(0)
    finally:
        os._exit(3)  # whatever happens: a fork never goes on with what its parent was about


def _told(work: Callable[[], None], fault: Callable[[], None]) -> tuple[str, str]:
    """Do the work, and tell how it ended; that has memory enough in any case."""
    lift, limits = resource.setrlimit, resource.getrlimit(resource.RLIMIT_AS)
    memory = resource.RLIMIT_AS
    try:
        try:
            fault()
            work()
        finally:
            lift(memory, limits)
    except TotalcalError as error:
        return "clear", str(error)[:2000]
    except MemoryError as error:
        return "clear", f"MemoryError: {error}"
    except OSError as error:
        return "clear" if error.errno in OF_THE_SYSTEM else "traceback", f"{type(error).__name__}: {error}"
    except RuntimeError as error:
        return "clear" if "allocate memory" in str(error) else "traceback", f"RuntimeError: {error}"[:2000]
    except BaseException as error:
        return "traceback", f"{type(error).__name__}: {error}"[:2000]
    return "right", ""


# -- faults


class Sound(NamedTuple):
    """Work without a fault: what it leaves, how long it takes, how often it brings something to the disk."""

    results: Results
    seconds: float
    syncs: int


class Place(NamedTuple):
    """Where a case happens: the work, its folder, what it is undisturbed; and the kills that struck."""

    work: Work
    folder: Path
    sound: Sound
    random: Random
    kills: list[int]

    def start(self, fault: Callable[[], None] = lambda: None) -> Child:
        return started(lambda: self.work.run(self.folder), fault)

    def made(self) -> list[Path]:
        """The files that the work has left so far; not what it was given."""
        given = {"model.totalcal", "rows.csv"} if self.work.prepare is prepare_prediction else set()
        found = [path for path in self.folder.rglob("*") if path.is_file() and path.name not in given]
        return sorted(path for path in found if path.name != ".lock")

    def some_time(self) -> None:
        time.sleep(self.random.uniform(0, self.sound.seconds))

    def kill(self, child: Child) -> None:
        if child.kill():
            self.kills.append(child.pid)


Fault = Callable[[Place], tuple[str, str] | None]
"""Disturbs the work; may say how a disturbed run ended, if that is not to be right."""


def kill(place: Place) -> None:
    child = place.start()
    place.some_time()
    place.kill(child)


def kill_again(place: Place) -> None:
    for _ in range(MANY):
        kill(place)


def failing(number: int, lasting: bool) -> Fault:
    """The disk says no: once, or from some moment on."""

    def fault(place: Place) -> tuple[str, str]:
        return place.start(lambda: _at_a_sync(place, lambda _: _refuse(number), lasting)).end()

    return fault


def tear(place: Place) -> None:
    """Half of a file reaches the disk before the power goes."""

    def torn(descriptor: int) -> None:
        os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)

    place.start(lambda: _at_a_sync(place, torn, renamed=True)).end()


def misdirect(place: Place) -> None:
    """What was meant for one file overwrites the beginning of another; then the power goes."""

    def astray(descriptor: int) -> None:
        content = os.pread(descriptor, 200, 0)
        others = place.made()
        if others:
            with place.random.choice(others).open("r+b") as file:
                file.write(content)
        os.kill(os.getpid(), signal.SIGKILL)

    place.start(lambda: _at_a_sync(place, astray)).end()


def lose(place: Place) -> None:
    """A write that was believed to be on the disk is not: a file is as it was before, or not there."""
    child = place.start()
    place.some_time()
    older = {}
    for path in place.made():
        with contextlib.suppress(FileNotFoundError):
            older[path] = path.read_bytes()
    place.some_time()
    place.kill(child)
    now = place.made()
    if now:
        path = place.random.choice(now)
        if path in older:
            path.write_bytes(older[path])
        else:
            path.unlink()


def rot(place: Place) -> None:
    """A bit turns in a file of work that was stopped."""
    kill(place)
    _turn_a_bit(place)


def rot_when_done(place: Place) -> None:
    """A bit turns in a file of work that was done, where somebody vouches for it."""
    place.start().end()
    _turn_a_bit(place)


def clock(place: Place) -> None:
    """The time of day jumps to and fro, and files come from the future; work is killed meanwhile."""

    def jumps() -> None:
        real = time.time
        time.time = lambda: real() + place.random.choice((-1e9, 0, 1e9))

    child = place.start(jumps)
    place.some_time()
    place.kill(child)
    for path in place.made():
        os.utime(path, (2**33, 2**33))


def pause(place: Place) -> tuple[str, str]:
    """One is stopped for a while; another one comes for the same work, and the first goes on."""
    first = place.start()
    place.some_time()
    os.kill(first.pid, signal.SIGSTOP)
    second = place.start()
    time.sleep(min(place.sound.seconds, 1.0))
    os.kill(first.pid, signal.SIGCONT)
    return _worse(first.end(), second.end())


def two(place: Place) -> tuple[str, str]:
    """Two do the same work in one folder at once."""
    first, second = place.start(), place.start()
    return _worse(first.end(), second.end())


GIVEN_UP = {
    ("died", f"signal {signal.SIGABRT:d}"),  # pyarrow
    ("died", "exit status 127, without a word"),  # glibc: "cannot allocate memory for thread-local data"
}


def starve(place: Place) -> tuple[str, str]:
    """Little memory is left. A library that gives up then is a kill, no more: see `GIVEN_UP`."""

    def limit() -> None:
        with contextlib.suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # what the parent has freed would be memory enough
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
        most = used + int(2 ** place.random.uniform(12, 24))
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

    end = place.start(limit).end()
    return ("right", "") if end in GIVEN_UP else end


def small_disk(place: Place) -> tuple[str, str]:
    """A real disk of some kilobytes, which gets larger later."""
    with _mounted(place, f"size={place.random.choice((16, 64, 128, 256))}k") as again:
        end = place.start().end()
        again("size=200m")
        return _worse(end, place.start().end(), _compared(place))


def read_only(place: Place) -> tuple[str, str]:
    """A disk that turns read-only in the middle of the work, and is mended."""
    with _mounted(place, "size=200m") as again:
        kill(place)
        again("ro")
        end = place.start().end()
        again("rw")
        return _worse(end, place.start().end(), _compared(place))


FAULTS: dict[str, Fault] = {
    "kill": kill,
    "many kills": kill_again,
    "no space, for good": failing(errno.ENOSPC, lasting=True),
    "no space, once": failing(errno.ENOSPC, lasting=False),
    "EIO, for good": failing(errno.EIO, lasting=True),
    "EIO, once": failing(errno.EIO, lasting=False),
    "torn write": tear,
    "misdirected write": misdirect,
    "lost write": lose,
    "bit rot, stopped": rot,
    "bit rot, done": rot_when_done,
    "clock": clock,
    "pause": pause,
    "two at once": two,
    "little memory": starve,
    "small disk": small_disk,
    "read-only disk": read_only,
}
MOUNTS = ("small disk", "read-only disk")
SPARED = {
    **dict.fromkeys(("fit", "predict", "columns", "save"), ("bit rot, done",)),
    "lines": ("misdirected write", "bit rot, stopped", "bit rot, done"),
    "corrupt": (
        "no space, for good",
        "no space, once",
        "EIO, for good",
        "EIO, once",
        "torn write",
        "misdirected write",
        "bit rot, done",
    ),
}
"""For what is done only the grid and the cache vouch. Lines by themselves have no checksum: those of a
finished run have that of its marker. Mapped files are flushed by no call that could be struck; small and
read-only disks are tried."""
UNSEALED = ("out.csv", "out.parquet", *(f"{name}.npy" for name in SPOILED))
"""A table that is done is the user's own."""


def _refuse(number: int) -> None:
    raise OSError(number, os.strerror(number))


def _at_a_sync(
    place: Place, strike: Callable[[int], None], lasting: bool = False, renamed: bool = False
) -> None:
    """Strike at a random one of the moments at which something is brought to the disk, perhaps from then on.

    The others take no time: a disk of this machine's own is no part of what is tried. `renamed`: a folder has
    its name when the strike comes, as nothing says that its files reach the disk before that.
    """
    moment, calls = place.random.randint(1, max(place.sound.syncs, 1)), [0]

    def sync(descriptor: int) -> None:
        calls[0] += 1
        if calls[0] == moment or (lasting and calls[0] > moment):
            strike(descriptor)

    _at_syncs(sync, renamed)


def _at_syncs(sync: Callable[[int], None], renamed: bool = False) -> None:
    """Call `sync` with a descriptor whenever a file is flushed, or a folder of files gets its name."""
    os.fsync = lambda file: sync(file if isinstance(file, int) else file.fileno())
    for name in ("rename", "replace"):
        setattr(os, name, _renaming(getattr(os, name), sync, renamed))


def _renaming(real: Callable[..., None], sync: Callable[[int], None], renamed: bool) -> Callable[..., None]:
    def rename(source: Any, target: Any, **options: Any) -> None:
        if not Path(source).is_dir():
            return real(source, target, **options)
        if renamed:
            real(source, target, **options)
        files = sorted(path for path in Path(target if renamed else source).rglob("*") if path.is_file())
        descriptor = os.open(files[0], os.O_RDWR)
        try:
            sync(descriptor)
        finally:
            os.close(descriptor)
        return None if renamed else real(source, target, **options)

    return rename


def _turn_a_bit(place: Place) -> None:
    files = [path for path in place.made() if path.stat().st_size and path.name not in UNSEALED]
    if files:
        path = place.random.choice(files)
        content = bytearray(path.read_bytes())
        content[place.random.randrange(len(content))] ^= 1 << place.random.randrange(8)
        path.write_bytes(content)


@contextlib.contextmanager
def _mounted(place: Place, options: str) -> Iterator[Callable[[str], None]]:
    """A disk of its own for the folder, and a function that mounts it otherwise."""
    given = {path.name: path.read_bytes() for path in place.folder.iterdir()}

    def mount(*arguments: str) -> None:
        subprocess.run(["mount", *arguments, str(place.folder)], check=True, capture_output=True)

    mount("-t", "tmpfs", "-o", options, "tmpfs")
    try:
        for name, content in given.items():
            (place.folder / name).write_bytes(content)
        yield lambda changed: mount("-o", f"remount,{changed}")
    finally:
        subprocess.run(["umount", "-l", str(place.folder)], check=True, capture_output=True)


def can_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        tried = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder]
        if not shutil.which("mount") or subprocess.run(tried, capture_output=True, check=False).returncode:
            return False
        subprocess.run(["umount", folder], check=True)
        return True


def _worse(*ends: tuple[str, str]) -> tuple[str, str]:
    return max(ends, key=lambda end: COLUMNS.index(end[0]))


def _compared(place: Place) -> tuple[str, str]:
    try:
        found = place.work.results(place.folder)
    except Exception as error:
        return "wrong", f"it said that it is done, and left {error!r}"
    other = sorted(
        name
        for name in place.sound.results.keys() | found.keys()
        if place.sound.results.get(name) != found.get(name)
    )
    return ("wrong", f"{len(other)} differ, among them {other[0]}") if other else ("right", "")


def run_case(case: str, sound: dict[str, Sound]) -> tuple[str, str, int]:
    """One fault in one piece of work, then the work once more without any: the end, its words, the kills."""
    _, _, fault, name = case.split("/")
    work = WORKS[name]
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        place = Place(work, Path(folder), sound[name], Random(case), [])
        work.prepare(place.folder)
        end = FAULTS[fault](place) or ("right", "")
        if fault not in MOUNTS:
            after = place.start().end()
            end = _worse(end, _compared(place) if after[0] == "right" else after)
        return *end, len(place.kills)


# -- threads


def threads(seed: int) -> Iterator[tuple[str, str]]:
    """Sixteen threads with one model: each gets the answers it would get alone."""
    inputs, labels = rows()
    for name in ("softmax", "etp", "bnn", "edl"):
        torch.manual_seed(seed)
        net = getattr(totalcal, name)(mlp(4, 3, hidden=(8,)), num_classes=3)
        totalcal.remember(net, (inputs, labels), (inputs.flip(0), labels.flip(0)), progress=False)
        net.train()
        blocks = [inputs[start : start + 6] for start in range(0, 120, 6)] * 4
        alone = [net.predict(block).probabilities for block in blocks[:20]] * 4
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(net.predict, blocks))
        same = net.training and all(
            torch.equal(each.probabilities, right) for each, right in zip(found, alone, strict=True)
        )
        yield ("right", "") if same else ("wrong", f"threads that predict with one {name} meet")


# -- all of it


def undisturbed() -> dict[str, Sound]:
    """What each work leaves, and how long it takes when all that it imports is there."""
    for module in HEAVY:
        importlib.import_module(module)
    for name, work in WORKS.items():
        _, modules = _alone(name, work, lambda: sorted(sys.modules))
        for module in modules:
            with contextlib.suppress(ImportError):  # some modules know themselves by another name
                importlib.import_module(module)
    return {name: _sound(name, work) for name, work in WORKS.items()}


def _sound(name: str, work: Work) -> Sound:
    calls: list[int] = []
    start = time.monotonic()
    results, syncs = _alone(name, work, lambda: len(calls), lambda: _at_syncs(calls.append))
    return Sound(results, time.monotonic() - start, syncs)


def _alone(
    name: str, work: Work, tell: Callable[[], Any] = lambda: None, fault: Callable[[], None] = lambda: None
) -> tuple[Results, Any]:
    """What the work leaves without a fault, and what it has to tell then."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, tempfile.NamedTemporaryFile() as told:

        def run() -> None:
            work.run(Path(folder))
            Path(told.name).write_text(json.dumps(tell()))

        work.prepare(Path(folder))
        end = started(run, fault).end()
        if end[0] != "right":
            raise RuntimeError(f"{name} fails without any fault: {end[1]}")
        return work.results(Path(folder)), json.loads(told.read())


def _in_turn(faults: list[str]) -> list[tuple[str, str]]:
    """Every fault with every work that it can strike, so that the first few have each fault once."""
    struck = {fault: [name for name in WORKS if fault not in SPARED.get(name, ())] for fault in faults}
    return [
        (fault, struck[fault][(turn + place) % len(struck[fault])])
        for turn in range(len(WORKS))
        for place, fault in enumerate(faults)
        if turn < len(struck[fault])
    ]


class Found(NamedTuple):
    """How the cases ended per fault, the lost ones, what was left out, how many kills struck."""

    ends: dict[str, Counter[str]]
    lost: list[str]
    skipped: list[str]
    kills: int


def run(most: int, seed: int, only: list[str] | None = None, journal: Journal | None = None) -> Found:
    """So many cases, faults and works in turn; those that stand in the journal are not tried again."""
    journal = Journal() if journal is None else journal
    skipped = [] if can_mount() else [f"{name}: no disk can be mounted here" for name in MOUNTS]
    chosen = [name for name in FAULTS if not (skipped and name in MOUNTS) and (not only or name in only)]
    pairs = _in_turn(chosen)
    numbered = ((number, *pairs[number % len(pairs)]) for number in range(most))
    cases = [f"{seed}/{number}/{fault}/{name}" for number, fault, name in numbered]
    left = [case for case in cases if case not in journal]
    sound = undisturbed() if left else {}
    for case in left:
        end, said, kills = run_case(case, sound)
        journal.note(case, end, said[:300], kills)
        if end in LOSING:
            print(f"{end}: {case}: {said[:300]}", file=sys.stderr, flush=True)
    if not only and f"{seed}/threads/0" not in journal:
        for number, (end, said) in enumerate(threads(seed)):
            journal.note(f"{seed}/threads/{number}", end, said, 0)
    return summed(journal, skipped)


def summed(journal: Journal, skipped: Sequence[str] = ()) -> Found:
    """What a journal adds up to."""
    ends: dict[str, Counter[str]] = {name: Counter() for name in (*FAULTS, "many threads")}
    for case, (end, _, _) in journal.ends.items():
        fault = case.split("/")[2]
        ends[fault if fault in ends else "many threads"][end] += 1
    lost = [f"{end}: {case}: {said}" for case, (end, said, _) in journal.ends.items() if end in LOSING]
    kills = sum(struck for *_, struck in journal.ends.values())
    return Found({name: counts for name, counts in ends.items() if counts}, lost, list(skipped), kills)


def table(ends: dict[str, Counter[str]]) -> str:
    total = sum(ends.values(), Counter())
    head = [f"{'':22}{'tried':>8}" + "".join(f"{column:>11}" for column in COLUMNS)]
    return "\n".join(
        head
        + [
            f"{name:22}{counts.total():8}" + "".join(f"{counts[column]:11}" for column in COLUMNS)
            for name, counts in [*ends.items(), ("all", total)]
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=102, help="faults and works are taken in turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="this fault; may be repeated")
    parser.add_argument("--journal", type=Path, help="a file that remembers what was done, for going on")
    parser.add_argument("--case", help="this case alone, as a lost one is printed")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    start = time.monotonic()
    if chosen.case is not None:
        print(*run_case(chosen.case, undisturbed()), sep=": ")
        return 0
    found = run(chosen.cases, chosen.seed, chosen.only, Journal(chosen.journal))
    print(table(found.ends))
    print(f"{found.kills} kills; {time.monotonic() - start:.0f} s, seed {chosen.seed}")
    print(*found.skipped, *found.lost, sep="\n")
    return 1 if found.lost else 0


if __name__ == "__main__":
    sys.exit(main())
