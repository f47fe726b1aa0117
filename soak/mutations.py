"""A seeded mutator over every reader of `corpora.py`, with limits on time and memory.

    python soak/mutations.py --mutations 100000 --seed 0 --journal files.jsonl

Each mutation ends in the right answer or in a `TotalcalError`; all else is counted in a losing column and
shown with the command that repeats it. Cases run in a child process with a budget of memory, as `--memory`
sets it: one that dies, hangs or takes more than its budget and 200 MB ends nothing.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from journal import Journal
from totalcal.files import budget

SECONDS = 10  # of one case on the processor
PATIENCE = 300  # of one case by the clock: on a busy machine, others have the processor
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where files cost no disk
BUDGET, SLACK = 800 << 20, 200 << 20
COLUMNS = ("read", "clear", "traceback", "altered", "died", "hung", "over budget")
LOSING = COLUMNS[2:]
NUMBERS = (0, 1, 2, *(2**bits - less for bits in (7, 8, 15, 16, 31, 32, 63, 64) for less in (0, 1)))
WORDS = (
    b"NaN", b"1e999", b"-1", b"9" * 50, b"9" * 5000, b"[" * 3000, b'{"a":' * 500, b"null", b"\\ud800", b"..",
    b"/", b"\0", b"\xff\xfe", b"\xe9", b'"', b"\n", b"\t", b"'O'", b"|O", b"(1<<60,)", b"-922337203685477580",
)  # fmt: skip


def mutated(data: bytes, random: Random) -> bytes:
    """One to four small disasters: bits, bytes, numbers, words, and whole pieces lost, doubled or swapped."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(MUTATIONS)(bytearray(data), random)
    return bytes(data)


def _flip(data: bytearray, random: Random) -> bytearray:
    for _ in range(random.choice((1, 1, 2, 8))):
        if data:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return data


def _number(data: bytearray, random: Random) -> bytearray:
    size = random.choice((1, 2, 4, 8))
    place = random.randrange(len(data) + 1)
    value = random.choice(NUMBERS) % 256**size
    data[place : place + size] = value.to_bytes(size, random.choice(("little", "big")))
    return data


def _digit(data: bytearray, random: Random) -> bytearray:
    places = [place for place, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    if places:
        place = random.choice(places)
        data[place : place + 1] = random.choice((b"9", b"0", b"-", b"99", b"9999999999", b".", b"e9", b""))
    return data


def _word(data: bytearray, random: Random) -> bytearray:
    place = random.randrange(len(data) + 1)
    data[place : place + random.choice((0, 1, 4))] = random.choice(WORDS)
    return data


def _piece(data: bytearray, random: Random) -> tuple[int, int]:
    first = random.randrange(len(data) + 1)
    return first, min(len(data), first + random.choice((1, 2, 8, 64, 1024)))


def _lose(data: bytearray, random: Random) -> bytearray:
    first, last = _piece(data, random)
    del data[first:last]
    return data


def _double(data: bytearray, random: Random) -> bytearray:
    first, last = _piece(data, random)
    data[first:first] = data[first:last] * random.choice((1, 1, 10))
    return data


def _swap(data: bytearray, random: Random) -> bytearray:
    first, last = _piece(data, random)
    place = random.randrange(len(data) + 1)
    data[place : place + last - first] = data[first:last]
    return data


def _blank(data: bytearray, random: Random) -> bytearray:
    first, last = _piece(data, random)
    data[first:last] = bytes([random.choice((0, 0xFF, 0x20))]) * (last - first)
    return data


def _cut(data: bytearray, random: Random) -> bytearray:
    return data[: random.randrange(len(data) + 1)]


def _append(data: bytearray, random: Random) -> bytearray:
    return data + random.randbytes(random.choice((1, 16, 4096)))


MUTATIONS: tuple[Callable[[bytearray, Random], bytearray], ...] = (
    _flip, _flip, _number, _number, _digit, _word, _lose, _double, _swap, _blank, _cut, _append,
)  # fmt: skip


class Sample(NamedTuple):
    """A folder with a sound file, as it is laid out again for each case."""

    path: Path  # the file to be damaged
    files: dict[Path, tuple[bytes, int]]  # content and time
    expected: Any  # what is read from it, where that must not change

    @classmethod
    def make(cls, name: str, folder: Path) -> "Sample":
        """And read it once: what a reader imports is no part of what it takes."""
        from corpora import SUBJECTS

        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        path = SUBJECTS[name].make(folder)
        found = [each for each in folder.rglob("*") if each.is_file()]
        files = {each: (each.read_bytes(), each.stat().st_mtime_ns) for each in found}
        sample = cls(path, files, None)
        expected = SUBJECTS[name].read(path)
        sample.lay(folder)
        if SUBJECTS[name].sealed and SUBJECTS[name].read(path) != expected:
            raise RuntimeError(f"{name}: a sound file is not read twice alike")
        return sample._replace(expected=expected)

    def lay(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        for each, (content, mtime) in self.files.items():
            each.parent.mkdir(parents=True, exist_ok=True)
            each.write_bytes(content)
            os.utime(each, ns=(mtime, mtime))


def run_case(name: str, number: int, seed: int, folder: Path, sample: Sample) -> tuple[str, str]:
    """How one case ends, and what it said."""
    from corpora import SUBJECTS
    from totalcal.errors import TotalcalError

    subject, random = SUBJECTS[name], Random(f"{seed}/{name}/{number}")
    sample.lay(folder)
    path, expected = sample.path, sample.expected
    sound, _ = sample.files[path]
    if subject.wrap is not None and subject.inner is not None and random.random() < 0.6:
        path.write_bytes(subject.wrap(mutated(subject.inner(sound), random), sound))
    else:
        path.write_bytes(mutated(sound, random))
    before = _memory_from_here()
    _set_timers(SECONDS, PATIENCE)
    try:
        found = subject.read(path)
        end = "read", ""
        if subject.sealed and found is not None and found != expected:
            end = "altered", "it was read as something else than was written"
    except TotalcalError as error:
        end = "clear", str(error)
        if isinstance(error.__cause__, MemoryError):
            end = "over budget", str(error)
    except TimeoutError:
        end = "hung", f"more than {SECONDS} s of work, or {PATIENCE} s of waiting"
    except MemoryError as error:
        end = "over budget", str(error)
    except Exception as error:
        end = "traceback", f"{type(error).__name__}: {error}"
    finally:
        _set_timers(0, 0)
    grown = _peak() - before
    return ("over budget", f"{grown} bytes") if grown > BUDGET + SLACK else end


def _memory_from_here() -> int:
    """What is in use now, in bytes; the peak starts anew, where the system lets one do that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def _set_timers(work: float, clock: float) -> None:
    """Interrupt what takes so many seconds of work or of the clock; 0 takes a timer back."""
    for alarm in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(alarm, _hung)
    signal.setitimer(signal.ITIMER_PROF, work)
    signal.setitimer(signal.ITIMER_REAL, clock)


def _hung(*_: Any) -> None:
    raise TimeoutError


def child(cases: list[tuple[str, int]], seed: int, folder: Path) -> None:
    """Run cases one after the other, each told before it begins and when it has ended."""
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no report
    samples = {name: Sample.make(name, folder / name) for name in dict(cases)}
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + 4 * (BUDGET + SLACK),) * 2)
    budget.limit_memory(budget.held() + BUDGET)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, number in cases:
        print(json.dumps([name, number]), file=report, flush=True)
        end = run_case(name, number, seed, folder / name, samples[name])
        print(json.dumps(end), file=report, flush=True)


class Lost(NamedTuple):
    """A case in a losing column."""

    name: str
    number: int
    seed: int
    end: str
    message: str

    def __str__(self) -> str:
        return (
            f"{self.end}: --only {self.name!r} --case {self.number} --seed {self.seed}: {self.message[:300]}"
        )


Ends = dict[str, Counter[str]]


def run(cases: list[tuple[str, int]], seed: int, journal: Journal | None = None) -> tuple[Ends, list[Lost]]:
    """All cases that the journal does not have, in as many children as it takes."""
    journal = Journal() if journal is None else journal
    while left := [case for case in cases if _key(seed, *case) not in journal]:
        begun, why = None, ""
        with (
            tempfile.TemporaryDirectory(dir=MEMORY) as folder,
            tempfile.TemporaryFile("w+") as given,
            tempfile.TemporaryFile() as said,
        ):
            json.dump(left, given)
            given.seek(0)
            arguments = [sys.executable, __file__, "--child", folder, "--seed", str(seed)]
            with subprocess.Popen(arguments, stdin=given, stdout=subprocess.PIPE, stderr=said) as process:
                for line in process.stdout or ():
                    if begun is None:
                        begun = json.loads(line)
                    else:
                        end, message = json.loads(line)
                        journal.note(_key(seed, *begun), end, message if end in LOSING else "")
                        begun = None
            said.seek(0)
            why = f"exit status {process.returncode}: {said.read()[-300:].decode(errors='replace')}"
        if begun is not None:
            journal.note(_key(seed, *begun), "died", why)
        elif process.returncode:
            raise RuntimeError(f"the child did not begin: {why}")
    return summed(journal)


def _key(seed: int, name: str, number: int) -> str:
    return f"{seed}/{name}/{number}"


def summed(journal: Journal) -> tuple[Ends, list[Lost]]:
    """What a journal adds up to: how the cases ended per reader, and the lost ones."""
    ends: Ends = {}
    lost = []
    for case, (end, message) in journal.ends.items():
        seed, name, number = case.split("/")
        ends.setdefault(name, Counter())[end] += 1
        if end in LOSING:
            lost.append(Lost(name, int(number), int(seed), end, message))
    return ends, lost


def table(ends: dict[str, Counter[str]]) -> str:
    total = sum(ends.values(), Counter())
    rows = [*ends.items(), ("all", total)]
    lines = [f"{'':24}{'tried':>8}" + "".join(f"{column:>11}" for column in COLUMNS)]
    lines += [
        f"{name:24}{sum(counts.values()):8}" + "".join(f"{counts[column]:11}" for column in COLUMNS)
        for name, counts in rows
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mutations", type=int, default=3_500, help="in all, shared out evenly")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="this reader; may be repeated")
    parser.add_argument("--case", type=int, help="this case alone")
    parser.add_argument("--journal", type=Path, help="a file that remembers what was done, for going on")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child is not None:
        child([tuple(case) for case in json.load(sys.stdin)], chosen.seed, chosen.child)
        return 0
    from corpora import SUBJECTS

    names = chosen.only or list(SUBJECTS)
    if chosen.case is not None:
        with tempfile.TemporaryDirectory() as home:
            folder = Path(home) / "case"
            sample = Sample.make(names[0], folder)
            print(*run_case(names[0], chosen.case, chosen.seed, folder, sample), sep=": ")
        return 0
    each = -(-chosen.mutations // len(names))
    start = time.monotonic()
    cases = [(name, number) for name in names for number in range(each)]
    ends, lost = run(cases, chosen.seed, Journal(chosen.journal))
    print(table(ends))
    print(f"{time.monotonic() - start:.0f} s, seed {chosen.seed}")
    print(*lost[:40], sep="\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
